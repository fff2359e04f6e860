// Before anything is drawn: the theme that was chosen here before. Without a choice it is the system's.
const chosenTheme = localStorage.getItem("onlooker-theme");
if (chosenTheme) document.documentElement.dataset.theme = chosenTheme;

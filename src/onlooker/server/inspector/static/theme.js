// Applies the chosen theme before anything is drawn. Without a choice it is the system's.
const chosenTheme = localStorage.getItem("onlooker-theme");
if (chosenTheme) document.documentElement.dataset.theme = chosenTheme;

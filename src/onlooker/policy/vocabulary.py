"""What a tokenizer knows whole: the words and characters that are one token each.

The words are the 5,000 most common of the cl100k vocabulary, most common first, with the beginnings of longer
ones. In English and in code they are four words of five; in other languages and in random text few of them
occur, which tells such text apart.
"""

COMMON_WORDS = """
th the in to re of and st for is be on con de this wh if that it as with al an pro com return or tr you
new from ex se le at ch are int class not pr by sh he was we public res us str have pl get can un do el
self en ab all cont will your out has up def bo but go function im const void set me var else so lo ar
more his they per data sa one dis name true ne end null my pre their private id who time man which any
false value li no app about add su string over qu ro ag des type inter part work em sp when use ad off
other been te sup acc had bu were file would our year val some pe there said her co comm ass like let am
gr also than static just result them into what pos sc list case kn fe first import act char only print op
its back need cl sub la start user ent under reg then may org how people ind jav should test bet make
after right long rem ext min ph fl loc array she exp par read rel form dr trans aw want comp number
require col key two size where arg while rec dif spec look could br know ser fr hand most try now him
break ap every point std fil mod error text pol show find current used play log see help these pass down
even bl ob item don did sm through inv es last event again high line does cr tem before because ed dist
state cons here final del run very ac model mon way call att cal dec num well object years default ins
java sim view pres bel many being good using stud gu request child param echo person style que method
expect prot sur found post sl such think differ much som http count inst gener med check open est next
follow includ href car bool game path each av support own cor mem sex sign et those err system best same
di create made mark group fin world process cre main color report take day sk comple top free action index
real max build message input art between ke table head must order mov contin say ter product double place
information oper week prop sw program und response struct code without sol ref still provid assert cap rep
field cour team second going range fam nil fact vis android writ ret home left direct exper allow beg page
different ca around rece really image target dep both put level config document local content fa quest
float develop poss too extends fore great month happ super title context met life incre src catch pay coun
change position old book gover version three law base conf during console spe against power wom iss width
label project element success date tot tri big map pop few len dem ear match node another sit care effect
fun leg service since non los full turn body something produ stand proble available block keep throw
things url red control come custom source eas await partic prov mill chang ask output email disc business
required govern might never hard intern np called cho options height small ide access protected job
address uint sum little fri port status appe os update link given better feel already including always
parent got less account der lot valid bit following sure prom boolean search orig er invest says temp rest
interest perform ver mult die site values beh won video gl cert prof cell player cost hum offic total stat
load clear techn row seem short override company done gre belie health args obj children distrib cur days
initial online instance javax organ reason within design cent arr bro school consider func eng include db
init ann stop later client love json able men give condition copy occ appro either important lead da
family option exist offer water che step government display times four far present bas lib room once
results continue talk grow mass mean aut until market area length mus kind light side example wr camp miss
based plan away lik button experience render near country author specific along express begin software imp
win thing why doesn single anal rights po ant women season dest possible sever btn didn sent enc command
recent money told equ auto working query window least expl column record dat making close percent past
write move pat vi special city eff tell select font course late amount async ben enough looking hold pot
property low para price today polit adv attack means story meet mom den sort thought task opt det review
switch above question word provide research publish cover whether div having exc employ fre complet large
fac created host role porn web dev deal problem press though points ever services actually ident million
aff conc understand happen server les files often info space password store format details prob face save
typ items social mar redu major expected yet indiv food members comb bar send inc params connection become
ev diff makes global contact abs except certain impro character news device previous material below media
fail black component added buy came delete card https root handle getting comput claim air enter location
night doing pick watch human dam tax girl box strong interface msg house track ce application pack pract
section unsigned wait together throws terms apply session others fund several template econ il subject esc
history individual du users mot future started mode ax took games products bad needs known exec seen
border live variable ge provided filename hope young website ey study network limit cut cou sizeof went
fire across community official visit received token months anim particular ess learn decl mind quick
comment admin opp pur background description represent series hot original bill frame draw deter comes
foreach elect filter larg remove front vo dig gen ste selected according util associ wor printf activ
virtual anything hours war models early center language sn inf ago easy download students fig buffer vari
due por ep cannot white register pred auth period vot screen tmp benef net neg common cred suggest accept
random respons hit click implement players among deb circ answer walk treat age req five distributed
friend clean words header tre discuss issue land stream quality sal works half police simple empty agre
cook everything relations nothing running mor na someone share ur entry changes personal offset pie events
invol whole needed likely fight ein writing rate tw correct fall vol development si indu elif pret believe
features minutes collection similar taken isn son necess um moment bring indic entire trying member phys
namespace foot board sus push please types clos edit energ phot py cult defined obt thread instead idea
coll film compet conn compan teach phone active mo death article almost sell applic connect feature via
lim ens environment compl install complete general asked reserved signific infl icon party vector normal
further database music speed doc taking viol forward crit failed concern sender term potential published
probably consum investig enjoy returns weight conditions exception trad module constructor favor mer loss
engine issues parse stay dom lower ps perfect educ exact former six margin heart rather building questions
je cas security however inside president graph tag attempt round friends campaign alt chall opport energy
profession seg hor behind callback raise wanted separ policy third bed serv har recomm training prior exit
mag release shall outside imm purch ground unique beaut pour tree byte dating matter shows ball simply
fast memory fit political industry extra reported resources img wrong seems maint unit takes etc appear
fem hom difficult coming settings autom quite blog descri everyone pretty longer menu currently
relationship parameters crush cout names effort actual fields fix cases performance higher itself
significant respect una progress mid resource dim direction additional numbers companies sound statement
alert contract lines soon join las subs fill choose office veh transform inde fn implements hash flag
particip note specified upon vert vict groups mut ve risk woman gets ign evid endl included sem cause van
focus multiple regard deg addition various receive increase commit html leave strateg bre align reading
clo notice lock standard padding states internal especially cross national script problems arch written
milit images platform force announc prevent iter living pattern entity integ useful tool ok feed popular
stre methods dir allowed impact elements prote train related vers sil cmd technology mit scale score
student average court container parts decision saw approach saying anyone song channel changed finally
kill drug convert ways mat plus profile ready sense latest saf region deep cv reach counter immedi weeks
damage lost himself dog paper thems staff alloc sched themselves driver category oil stock dead charg ful
rules modify eval contains stack undefined playing bottom couple ctx road held includes avoid tab insert
machine operation production areas ren operator tor candid conv argument establish sch movie sec activity
sql provides sys wasn uses license accom ability parameter jud functions experi rot pen choice readonly
flex characters rev wonder legal ten goes reference mis repl regular goal touch built worth natural inj
calcul associated storage bytes travel sou passed grid bus recogn hon prec countries qual manufact porno
login ill levels looks necessary extrem placeholder released properties respond requ financial threat
evidence ou rule starting contrib logger recently returned seek communic username otherwise systems drop
structure stri directly errors arguments ensure introdu grad usually ip ist serious customer door plant
began distance chance ord protect route neighb contr primary bi leaders gun comments updated inform hab
creat led bank sample hands offers shape sleep achie sold safe shared priv sens remember shoot env scene
became park sen implied yourself aud wrote equal serial allows middle escort quickly weap cop vs frequ
actions proper inn objects matrix ones green paint une designed layer views reve core expert ir surpr repe
directory election beautiful secret chat origin effects management setting massage happy finish camera
stuff hy military sale mention town solution slow blue lives customers cast determin dark package nor api
club loop played existing complex analysis deliver computer pas rais mobile owner attr treatment ha
leading zu flow involved io shift tf eyes nice floor redirect wish capt stage solid meeting worked editor
dict ang medical hour controller books speak mount felt modern seconds international cele cache roll setup
considered growth mix plt turned letter attention collect imag situation von knowledge drive blood cit
configuration photo gave shot mother morning trade desc parents sy piece professional completely practice
selection cam sites reader messages buf nov das heard dise gold fair sales measure decided opportunity
contain manager pain plans influ loaded grand credit difference pub fra tried reports adult consist whose
relig gives easily ideas pair split capital hear exists parser education library calls brand ing pet
charge depend df huge basic arm star federal carry saved syn constant positive conduct skin earlier layout
tim temper wants picture videos prem components throughout pull pages gas edge bound creating nullptr
learning patients kids comfort shown lat dispatch classes successful obtain lack none dans hair cu laws
pow knew wide jobs math scope meas keys exactly vote mask theme props fine writer altern copyright destroy
generate browser favorite career happened recommend liter named panel rock trust demon economic race
physical removed looked dro towards uns rows define father histor nature js nation discover wall exam
nearly cool independ handler sun predict sometimes drink bul tests alleg attribute myself interesting
population greater thous costs launch band wer immediately figure rank projects poll giving plot warrant
billion equipment ple headers proced pa raw brought gratis interview partial aria remain anti safety batch
beginning zero terr paid increased queue scient appropri idx maximum birth maybe limited movement broad
fans foreign pan tour moving auf fully announced agreed earn materials unless sexual coach supported
photos dialog pressure teams improve definition thinking emerg enable concept sets meaning daily multi
challeng strict vehicle pool organization summer rap surface variables opin workers master stories celebr
og steps officials skills builder gar effective tools digital inline intent requests debug spent princip
surv missing wife talking cart located cards guy pers accur records killed purpose exerc sin pointer hop
obs requires norm programs weak mil firm demand described places alone export vec activities ma expression
testing adjust agree ui pod describe convers operations scen explo director yield feet restaur integer
highly optim transport essential benefits girls socket prices sat wood reset forms dt guys instruction
internet rect devices guard enum delay purchase aren fish jo doll leader compar doub culture suffer
straight ded confirm advert couldn hous mechan audio spot increasing compared behavior detail fresh moved
payload bey symbol assum pul hundred voice pd transaction links demonstr instit boost cells college
largest qui individuals ng sing suit jump smart assist successfully bur beyond nodes affect typeof fetch
crusher rates bon fuck studies owners growing torch certainly adding mach reject poor aware numer mock om
scre correspond binary advant prev closed encour developed permission sym although amazing sb failure
dream distr au generated income eye oppos strugg txt guess particularly domain reduce appears como cos
tele reasons emb af danger distribution goto colors powerful depth posts micro arrest interested rent
album axis minimum obvious basis science budget flags variety truth gone battle erot station finished shop
eight mail nav instanceof overall construction medic duration seven calling ans brain followed slight
insurance abstract volume cursor implementation larger upload tit completed mur columns supply spr units
payment squ factor strength boy balance sources hidden eat trigger tro claims gift produce attributes warm
tal flash negative sett burn society clients providing rout foc excell cat determine employees traff
django partner feeling civil wouldn loading cookies strategy ship signal alpha replace refer ahead pun
appropriate agent transfer invalid gay journal ol spend quarter frag cash een commercial fixed
applications san perhaps sig corpor eth tend reviews wild degree disabled notes logging xml fan trip soft
applicable upper chem highest connected citiz forces www thus posted magn disease remains cin stress died
starts runs guide warranty responsible containing emp suff definitely marketing consult signed sequence
requirements ult analy dress families folder legis biggest polic permissions showed topic partners assess
ul administration opening scan continued happens waiting economy fant numpy street male previously mist
kept traditional helps fs ut central satisf heat onto factory guest mal reached mouse challenge terror
extract separate mir capacity understanding easier enh fat protest psych relative fear schools serve
majority lang processing eg remote redistrib reflect pros whom monitor patient gain dies grat reality
compliance append dynamic batter dos miles benefit integr ton baby attacks hospital female chain farm
knows generally meant nicht contents speech thr warn heavy investigation church despite whatever meta
regarding resolve pm updates toward listen goals rare trail prim rad spread clock vir efforts branch
indust motor amb datetime rencont fmt caused bath radio restrict extension essay hat offered vill helped
spirit therefore peace incor minor opened pi eq ban produced bg constit mission ther football bag enabled
rac managed mac pin occas ti haven glass surround weekend somew plugin vous older gam extremely het timer
critical execute showing thousands resp becomes hus lose vel defense bes dry scroll wire strings matches
electric excellent wx tasks rich widget agency sich trial placed dan weather destination provider planning
seeing cancel visual agreement corner protection fi transition candidate trend smaller criminal conflic
investment violence belong enemy inner pictures labels angle aim stick clin styles born scr expand raised
episode mas fav construct external applied prefix cold finding router crow sand rid entre observ vac
exchange district department documents century susp shut healthy temperature metal submit attract ll
seemed labor asset cars square thanks tick experiment prison guar clearly justify presence factors
employee selector reli fprintf teen leaving beat minute redistribute cancer span earth sea attend species
aus advantage truly compare spect visible mess cloud furn traffic fol declar slot ta officer opinion
advice automatically mm initialize generation bits unf delta limitations ended chart independent instr
tags mi learned hotel cy movies steel mixed puts androidx innov deck continues appoint bin established
neighbor gather identity fab forced eventually tra validate officers accounts advis tok timeout bal guid
pitch incred assume nom remaining pieces businesses parties registered jour creation instant delivery
schedule thank hook documentation articles west mys cities appeared wid decre mentioned critic flo hyp
avec completion cond stars relevant covered elim tu secure stored migr annual crime kitchen tail unknown
apprec assign stone daughter curr lin south brief conference eine ris gender ms willing sports yes purs
driving propos approx wear reply ice tx cb poly animal native mais prepar interval bug faith rom god
positions weapons coff purposes impress animals murder solutions bright situ sie crash reverse prompt
mysqli afford skill wind warning draft cm sam holding supposed diet husband climate nut apparent holds
senior rise kernel offering listed mostly blocks governing concent mb occurred changing tile prepared mort
ignore calc rs sz canvas dut aux artist ring flat checked lab lots slightly award ptr manage watching
optional blank theory python lif trav conven zone verify packet cer enumer pars occup exercise asking
orders spending emot influence chief tom policies coverage rc charges circum filled north termin ber argv
discussion served sweet sust segment loved lie isset prime phase hide til ju quant rub installed dump
properly decide keeping citizens joint weapon examples tight photograph maintain nums zip pic seed
experienced odd kick procedure ends dataset explain noted operating este proceed animation oppon sounds
bund kid yang vent religious rand rencontre acad refresh tips homes fuel usage texture conversation
shooting presented wa becoming incident revealed boot spring locations samples stats helping ped ft mine
sector gro opportunities mp alleged doubt chair stopped apps mental defend ideal ele funds adapt deploy
validation concerns cup pure cs stores communication identify swe prepare rob sport alternative mysql
welcome caught survey decor turns radius mel intr ts linked faster combination intended uma ran sorted
priority entered ich brother utf navigation dst audience dur cluster comfortable snap standards performed
phil forget doctor putting md allowing entries prefer skip competition als bind seat ack rating restaurant
league focused absolute tells communities honest apart shock retrie possibly craft talent funding
confirmed cycle hearing plants mouth od bought addr decades versions moves coffee schema fighting retail
modified bond pt identified coding residents sheet hers determined wed mes advanced pal truck combined
joined broken marriage represents ss absolutely smooth merge nn sexy seeking kom injury issued patch
leaves adopt executive nu substant technical twice univers drag sed bot auch resolution bott helpful
massive measures worry worse lay magic sudden defe binding flight drugs proposed stated east winning
copies vm dictionary iron debate lawy trim pad follows windows plane tough reduced calculate rapid
efficient medium fell feedback categories fee deleted proof sides feels achieve clim teacher tv sock plays
discount appearance styled sac recommended organizations discovered conserv domin recipe wonderful ru
inputs fif vision trading marker typically causes detect cref administr fashion disable suc metadata
committed va rough highlight encoding rain candidates sav decisions collabor persons dollars prostit
authority spokes ven tokens developing instructions promise requested intelligence selling bigger rat
famous typename explained nuclear crisis answers sequ standing plenty cock authorities familiar ment
freedom routes commands mesh witness cle union thoughts reward nie execution beach abort dp hel quiet
ratio advent ours processes adds entirely wash animated profit manual motion gratuit era ho expensive
isinstance dangerous currency percentage classic accident variant myst harm charged walking leadership
timestamp listener experiences creates choices ordered evening pil tun explicit arrived fly econom lists
architect ds vehicles king abuse extr chemical orient breath entr sob affected coal hundreds politics
consumer repeated protocol leads challenges novel depart creative buff introduced tod hun implemented
notification forg permit targets tip supports fold google sharing goods manner controls mand extended
embed planet believed handling alter shipping battery impl charset journey din perman solve launched nine
sending telling grab debt frequency negot experts depending judge sentence trace friendly concerned
claimed accepted mining songs herself granted passion loan detailed specifically carried cul sitting
assault voters arms vul housing bear markets ticket millions recover victim fourth ath channels elem
responsibility elseif fo treated ast assets interests hardware liqu worst drivers approved snow
differences todo sel tweet researchers sprintf pel illegal hero pp ci suggested buying mu lands holder
sympt argc fort casino forum nue acknow worker relationships cheap ride chunk chosen unable nos lift radi
migration advance shopping substantial pregn promote signs letters vertex ja affili wealth significantly
ec xs transl och till signature bird elev mt relax plate grade noise voc visited succeed impossible dish
sensor surg fp authors soc salt rooms begins excited ignored bonus relatively thick conflict wave democr
actor speaking university algorithm numerous recru prove decimal commission summary closer confidence
compat vertical environmental corresponding justice lived occur threshold onclick cum obtained complaint
eating tar opts plastic quantity greatest scores hate pand logic nur married dropped registration wearing
dedicated advoc statements motiv blow exhib centre trouble ns lic sizes fragment spoke waste illustr aid
prosec passing faces alle robot receiving comparison xxx capture corre clip endif oblig favour checks
scientific privacy feat degrees films fellow evt reb hex az practices anywhere oder attached estate
figures subscri winter trees proud hier fd victims fake strlen sad ble buttons television logo simp
recorded brings principal fees utils correctly wel escape chapter shadow awesome lambda distinct bare
colour adj totally fundament facility happening exceed cp hasn pri consequ carbon spl deals fixture tested
paying arrested cc shell neighborhood youth techniques repository cookie laugh multip victory compute
providers veter replaced matching sind dogs desire mob displayed adults delivered assigned wp combat
supporting spin spaces patterns framework teaching tables quote werden cream machines stim importance
stroke taste interrupt circle initi compreh humans bringing votes desired relation inspir rotation mari
increases lights dates paths reaction minister readers domestic filed mapping repair nombre gest hist
orphan cultural dot diam surprise virt bomb vast picked pdf roles industrial facilities ni ba cls imagine
exports mad fro committee division sync identifier extent hur edges indeed reporting encounter kinds
considering protein spell matters emergency scheme marked bodies corporate dimension contrast capable
advertising facing beer sky criteria aspect bundle tank hurt broadcast alcohol planned resc rhs parking
island sister gap voor owned solar resulting estimated improved pixel adapter revenue fle bike disp
consistent rush axios neck seq hits contained assistance veget boys wedding agents hint tech legend lit
participants busy extend websites possibility meat representation nob turning fabric perspective facts unt
uri conducted wine realize subsequ accompl isol occasion tid killing instances sf taxes shouldn km helper
statistics beauty tog csv likes repeat apartment emph vit circumstances sugar observed calendar strike
gang accused explore approximately losing diagn cnt yy grant glob dire authentic decade originally
indicate ourselves basically modal suggests dtype tur connections pulled legislation forth exciting compr
shares rig enumerate holiday nullable wrapper reasonable bei wheel cfg vary proxy checking jest expressed
moder agencies ih sole pc strip presidential enforcement aggress drawing teachers temporary topics portion
recovery stands afternoon explan ik disk controvers wie volunte newsp delegate accurate cabin limits army
ending boss developers accuracy maintenance heav filters narr consumers pued mini kan bench crowd powers
dismiss talks beta effectively returning modules storm spons displ handles usual serving linear symptoms
typedef ga artists ham cha vulner ya soul solo pairs gi scheduled dram diagram garden attempts philosoph
sv aspects rail widely equivalent ty potentially religion consc keeps regions believes strt layers acid
excess keyboard crew missed newly winner stub forest resistance pipe coast ultimately historical anyway cn
occurs yesterday tiny proc alive noticed edition yards verbose glo buildings ze tube vacc installation
finds atmos replacement logged household rele proposal infrastructure ads mg attorney cann println yellow
opposition exclusive react largely diss corn fruit revolution uniform depends trib contest apparently
frequently tradition dx generator bedroom ancient pump dw specify remark kne perm dinner referred neither
county tack renew brown sustain enemies existence explos fired obviously vor upgrade codes writes tracks
seriously immediate scientists accommod sight coordinates grew bold perfectly moments disap reduction
generic dy curl banks evil manufacturer receiver ingredients slowly courses hall rum saving opposite
enjoyed sufficient phen oh routine basket studio shr sick doors maps nearby nach lux acts retain knowing
representing trick controlled milk discussed tact sid frames regul cro disappoint butter bid valor
synchron formed lista village knock transactions habit aircraft fairly instrument ot colle ids networks
intel sections bridge payments concrete elig acceler hole graphics packages duty ongoing tan interpret
legs prohib blo ease extreme professor addresses incorpor discrim compens secondary academic derived
typical bounds crazy emotional declared normally pointed walls listening swap emails appeal regulations
technologies paragraph necessarily underst finger weights institutions exposure electronic continuing bien
streets cutting causing structures plain peer somewhat wet employment tickets tuple conversion ges
configure magazine broke destroyed approval designs crushing consent crypt gear suitable surprised
manifest frustr ii expansion translation liquid prod operate natur upcoming clinical heading stretch
reprodu responses ont refuge covers fails fault ly giant twe collected furniture dealing chose accord
threads mainly counts anymore mile sorry surrounding adm marijuana asc intention inspired manip findings
assembly remained uid mx fantastic heads recording submitted stood rear younger struggle cable engineering
uk hang competitive translate designer za somewhere boxes pygame grown opponent guests amounts clone weren
breaking reliable purchased situations entities batt increasingly explains hal technique drawn featured
pag tou hell cruc sont interior river withdraw formula indicates pid wins denied wird investors surgery
strategies council reform listing bis suddenly ao premium tracking mature bathroom soldiers walked
surprising gene subjects toler endpoint strange colon preferred whe pup talked institution exposed
encourage liked votre manufacturing inches estim indices tub functionality dass shots restore silver
legisl houses injuries constantly recognized practical decent slide qualified thrown toggle association
fade luck terminal efficiency unw narrow searching realized kil scenario incredible unlock references wrap
therapy pharm wallet monthly diagnostic iterator immigration clothes activation initially cuts incorrect
liv ra permitted regional sobre roof chest esta subscription meal closely commitment wake inher expr
valuable funny stable pill offensive spark fasc birthday imports suspect march possess horse foo della
processed ko tap tea rein worldwide bir represented dance visitors dar latter bow outcome risks ownership
parallel pending recognize immigr smile consumption shoes foods pipeline collections earned partnership cd
screens titles abandon closing campus folks boat permanent carrying conservative dimensions sca lets aqu
whenever acting gal incontri exem evolution watched severe professionals guarante pushed tum appreciate
surve platforms lawyer accum marks thin velocity guarantee evaluate inventory lies assessment notify
lowest languages einen bias programming shirt thinks regardless simpl bunch universe presentation attach
discipl regularly primarily sans supporters carefully todos dont privile injured alias ses directed navbar
utility inject eu restaurants zoom legit absor ow superv respectively arc nd restr seasons hi fluid
runtime taught mul mongoose soci accessible bucket brush tensor functional tent sees extern feelings lean
hoping curve moral urban aside editing voting honor improvement parsed lazy falling forever resume papers
suffering declarations executed stuck sessions coup slots medicine glad kann brands ske digit backup
personally cry malloc gran ml bat muscle certificate harder pixels developer explode participate substr
scala lunch outdoor essentially dust retire fib loves reads fundamental tow comprehensive acknowled
cleaning gaming unus involving repo sha membership css opens gent joy literally bars formal declare
consequences leaf outer relief combine procedures signing sexe impressive slice understood informed nick
elections licensed bread nod hopes guilty rose defensive doctors zum memor jur uuid estimate loader mens
refused precision locked rising scenes recon bless counsel everybody hence opposed writers converted
sought salary wir continu fraud tournament kit ore explanation chicken peak drinking encode principles
keyword trained kv suite thousand coordinate admitted pussy swim vital preced horizontal attrs smoke
passes sensitive tall circuit driven voted educational interaction tone merely stronger increment coin
suffered meetings entering alongside foundation outputs enthus interact weird requirement elected servers
snapshot tries tipo mountain pounds flying seats indicated assignment casual epoch git penalty superior
grass guns tb deaths extensive performing usuario credentials ai chip volt belief reveal violent catalog
constitution descriptor distribute lbl tort responded featuring nam evaluation cant fet merc overflow
bottle coord conj kwargs genu unexpected ka confident detected strongly lect entertainment gonna bb
mistake underlying jaw objective deposit kon esp franch scored anticip describes monitoring tout cust
atmosphere afraid tomorrow engage bab careful crucial calculated wy jet publication faced loans integrity
facilit embr manufacturers proven alarm commonly engaged governments affordable ages hydro organized nb
removal authentication pleasure partition crimes demo expectations molec defaults nations rt conclusion
lovely emit intellect brew admit arbit arrang convent printed convenient electron lombok javafx supplies
visiting powder ultimate orientation airport metrics phenomen mai fewer virus retro imper vice offense
rape overwhel applies contribute introduction matplotlib newspaper ini diverse bull incredibly equals lady
difficulty compact quit pou streaming stead province colspan personnel producer everywhere grinding scanf
jew restrictions waves confront measured datas shoulder troops nous communications decode bio okay heavily
dipl rotate mayor somehow capabilities vibr cig conscious unn mechanism automatic chances complicated tape
constraints guitar fiction propag achieved nurs behaviour cols femin challenging posting captured
reputation eligible finance gotten invent restart modification sacr pose fitness announcement serves
geometry sprite einer weekly migrations asks bs falls hyper volatile twenty settlement contracts hack vie
appl anchor ade targeted laid inch preview illness nome tc phrase provision concentr nas px tk cheese
consists soil flavor shit retrieve belongs expanded rescue rely alignment rend borrow quotes shower
attempted literature plugins breast creature supplied fucking vertices sharp cooking ger bone deeply
caption roughly initialized scalar hem signals dummy personality agricult enorm aver debut pb zur vag mr
cpu pressed ak nic genre attrib arrive tm glm stations tied alg organic loud heap unlikely minimal tamb
producing singles thesis bacter ruling subsequent thorough publicly revers bullet
"""

# Han characters and hangul syllables that are one token each; all others are two or three. Depending on how
# common its characters are, Chinese has 0.9 to 1.4 tokens per character, so one weight is not enough.
COMMON_HAN = (
    "一万三上下不与专业东两个中串为主么义之也书了事二于五些交产享京人亿今介从他付代以们件价任份企优会传但"
    "位体何余作你使例供価保信修倍值停像元先入全公共关其具内円册再写出击分列则初利别到制前力功加务动動包化"
    "北区十午华单南即历原去县参及友反发取变口只可台右号司合同名后向否含听启告员周命和品哈商問器四回因国图"
    "土在地场址型城基報場填增声处备复外多大天失头女好如始子字存学安宋完定实审客家容密对导将小少尔就局展山"
    "岁州工左已市布常平年并广序库应店度建开异式引张当录形影径待後得微心必志态思性总息您情意感成我或户所手"
    "打找技投报拉持指按换据排接推提播支收改放政效数整文料断新方族无日时明易星是時景更最月有服期木未本机权"
    "束条来板构析果查标样核格案检模次款止正此步歳段每比民気水求江汽没治法注活流海消清游源火点無然片版物特"
    "率环现球理生用由电男画界番登的监目直相省看県真知码确示社票私种科秒称移程稍税稿空立站章端笑符第等签简"
    "算管箱米类系素索约级线组经结给络统编网置美老考者而联能自至色节英藏行表装西要見见规视角解言計記話読计"
    "认议记论设证评试话询该详语误说请读调象责败账货购费资起超路身车转软载辑输达过运近还这进连述退送选通速"
    "造連道邮部都配释里重量金钟钮链销错键长開間関门闭问间队阳陆限院除雅集雷需非面音页项预频题额首验高黑"
)
COMMON_HANGUL = (
    "가간값개거게결경고공과구그글기나내는능니다당대도동되된드든들디라래러력로록료류른를름리만메면명목문미"
    "버번보복부분비사산상색생서성세션소수스습시식신아야어에여열오와요용우운원위으은을음의이인일임입자작장"
    "재적전정제져조주지진째체출치크태터턴트튼하한할함해호화환회"
)
# Signs and digits of full width that are one token each.
COMMON_WIDE = "！（），－．／０１２３４５６７８９：；＞？＾～･￥"

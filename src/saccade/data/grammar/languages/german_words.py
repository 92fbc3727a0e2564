"""The words of the built-in corpus in German."""

from __future__ import annotations

from saccade.data.grammar.languages.language import entries

__all__ = ["ADJECTIVES", "FIXED", "MODALS", "NOUNS", "VERBS"]

# English, singular/plural, gender; "w" for a weak masculine noun, which ends in -n in all cases but the first
NOUNS = entries(
    "man Mann/Männer m, boy Junge/Jungen m w, king König/Könige m, father Vater/Väter m, "
    "brother Bruder/Brüder m, uncle Onkel/Onkel m, prince Prinz/Prinzen m w, actor Schauspieler/Schauspieler m, "
    "woman Frau/Frauen f, girl Mädchen/Mädchen n, queen Königin/Königinnen f, mother Mutter/Mütter f, "
    "sister Schwester/Schwestern f, aunt Tante/Tanten f, princess Prinzessin/Prinzessinnen f, "
    "actress Schauspielerin/Schauspielerinnen f, witch Hexe/Hexen f, kid Kind/Kinder n, teacher Lehrer/Lehrer m, "
    "doctor Arzt/Ärzte m, farmer Bauer/Bauern m w, baker Bäcker/Bäcker m, neighbor Nachbar/Nachbarn m w, "
    "nurse Krankenschwester/Krankenschwestern f, friend Freund/Freunde m, soldier Soldat/Soldaten m w, "
    "student Student/Studenten m w, dancer Tänzerin/Tänzerinnen f, cat Katze/Katzen f, dog Hund/Hunde m, "
    "horse Pferd/Pferde n, cow Kuh/Kühe f, lion Löwe/Löwen m w, fox Fuchs/Füchse m, wolf Wolf/Wölfe m, "
    "goat Ziege/Ziegen f, owl Eule/Eulen f, giraffe Giraffe/Giraffen f, elephant Elefant/Elefanten m w, "
    "bear Bär/Bären m w, snake Schlange/Schlangen f, mouse Maus/Mäuse f, rabbit Kaninchen/Kaninchen n, "
    "duck Ente/Enten f, hen Henne/Hennen f, bird Vogel/Vögel m, frog Frosch/Frösche m, "
    "turtle Schildkröte/Schildkröten f, spider Spinne/Spinnen f, bee Biene/Bienen f, "
    "butterfly Schmetterling/Schmetterlinge m, cake Kuchen/Kuchen m, apple Apfel/Äpfel m, pear Birne/Birnen f, "
    "cheese Käse/Käse m, egg Ei/Eier n, carrot Karotte/Karotten f, tomato Tomate/Tomaten f, "
    "strawberry Erdbeere/Erdbeeren f, cookie Keks/Kekse m, soup Suppe/Suppen f, salad Salat/Salate m, "
    "pie Torte/Torten f, milk Milch/- f, water Wasser/- n, tea Tee/- m, coffee Kaffee/- m, juice Saft/- m, "
    "letter Brief/Briefe m, door Tür/Türen f, window Fenster/Fenster n, key Schlüssel/Schlüssel m, "
    "bottle Flasche/Flaschen f, hat Hut/Hüte m, dress Kleid/Kleider n, shoe Schuh/Schuhe m, "
    "umbrella Regenschirm/Regenschirme m, car Auto/Autos n, boat Boot/Boote n, flower Blume/Blumen f, "
    "knife Messer/Messer n, newspaper Zeitung/Zeitungen f, gift Geschenk/Geschenke n, clock Uhr/Uhren f, "
    "bag Tasche/Taschen f, guitar Gitarre/Gitarren f, table Tisch/Tische m, chair Stuhl/Stühle m, "
    "bed Bett/Betten n, tree Baum/Bäume m, cupboard Schrank/Schränke m, house Haus/Häuser n, "
    "garden Garten/Gärten m, school Schule/Schulen f, market Markt/Märkte m, park Park/Parks m, "
    "church Kirche/Kirchen f, kitchen Küche/Küchen f, forest Wald/Wälder m, hotel Hotel/Hotels n, "
    "castle Burg/Burgen f, village Dorf/Dörfer n, hospital Krankenhaus/Krankenhäuser n, "
    "farm Bauernhof/Bauernhöfe m, museum Museum/Museen n, bridge Brücke/Brücken f, beach Strand/Strände m, "
    "mountain Berg/Berge m, island Insel/Inseln f, street Straße/Straßen f, avenue Allee/Alleen f, "
    "square Platz/Plätze m, road Landstraße/Landstraßen f, river Fluss/Flüsse m, stream Bach/Bäche m, "
    "lake See/Seen m, canal Kanal/Kanäle m, customer Kunde/Kunden m w, banker Bankier/Bankiers m, "
    "thief Dieb/Diebe m, fisherman Fischer/Fischer m, swimmer Schwimmerin/Schwimmerinnen f, "
    "sailor Matrose/Matrosen m w, film Film/Filme m, book Buch/Bücher n, comedy Komödie/Komödien f, "
    "story Geschichte/Geschichten f, meal Mahlzeit/Mahlzeiten f, restaurant Restaurant/Restaurants n, "
    "poem Gedicht/Gedichte n, lesson Lektion/Lektionen f, idea Idee/Ideen f, game Spiel/Spiele n, "
    "article Artikel/Artikel m, song Lied/Lieder n, melody Melodie/Melodien f, opera Oper/Opern f, "
    "bank Bank/Banken f, riverbank Ufer/Ufer n"
)
ADJECTIVES = entries(
    "small klein, big groß, beautiful schön, old alt, new neu, good gut, bad schlecht, pretty hübsch, "
    "young jung, black schwarz, white weiß, red rot, green grün, blue blau, yellow gelb, gray grau, "
    "heavy schwer, modern modern, strange seltsam, famous berühmt, sad traurig, happy glücklich, lazy faul, "
    "tired müde, hungry hungrig, curious neugierig, furious wütend, dangerous gefährlich, quiet ruhig, "
    "slow langsam, wounded verletzt, cruel grausam, enormous riesig, intelligent intelligent, brave mutig, "
    "strong stark, delicious köstlich, fresh frisch, cold kalt, hot heiß, excellent ausgezeichnet, "
    "wonderful wunderbar, funny lustig, interesting interessant, fascinating faszinierend, boring langweilig, "
    "terrible schrecklich, awful furchtbar, ridiculous lächerlich, disappointing enttäuschend"
)
# English, infinitive, present (he), participle; * for those with sein; "zu|" comes off; then the case or preposition
VERBS = entries(
    "eat essen isst gegessen, devour fressen frisst gefressen, see sehen sieht gesehen, "
    "find finden findet gefunden, follow *folgen folgt gefolgt dative, chase jagen jagt gejagt, "
    "love lieben liebt geliebt, like mögen mag gemocht, hate hassen hasst gehasst, buy kaufen kauft gekauft, "
    "sell verkaufen verkauft verkauft, take nehmen nimmt genommen, lose verlieren verliert verloren, "
    "break zerbrechen zerbricht zerbrochen, wash waschen wäscht gewaschen, paint malen malt gemalt, "
    "draw zeichnen zeichnet gezeichnet, visit besuchen besucht besucht, reach erreichen erreicht erreicht, "
    "cross überqueren überquert überquert, help helfen hilft geholfen dative, call rufen ruft gerufen, "
    "drink trinken trinkt getrunken, choose wählen wählt gewählt, admire bewundern bewundert bewundert, "
    "frighten erschrecken erschreckt erschreckt, look_for suchen sucht gesucht, "
    "wait_for warten wartet gewartet auf, listen_to zu|hören hört zugehört dative, give geben gibt gegeben, "
    "show zeigen zeigt gezeigt, send schicken schickt geschickt, bring bringen bringt gebracht, "
    "sleep schlafen schläft geschlafen, run *laufen läuft gelaufen, cry weinen weint geweint, "
    "sing singen singt gesungen, dance tanzen tanzt getanzt, swim *schwimmen schwimmt geschwommen, "
    "play spielen spielt gespielt, fall *fallen fällt gefallen, stay *bleiben bleibt geblieben, "
    "arrive *an|kommen kommt angekommen, leave *weg|gehen geht weggegangen, "
    "come_back *zurück|kommen kommt zurückgekommen, go *gehen geht gegangen, think denken denkt gedacht, "
    "know wissen weiß gewusst, say sagen sagt gesagt"
)
MODALS = {"want": ("will", "wollen"), "can": ("kann", "können"), "must": ("muss", "müssen")}
FIXED = {
    ".": "./PUNCT",
    "?": "?/PUNCT",
    ",": ",/PUNCT",
    "and": "und/CCONJ",
    "but": ",/PUNCT aber/CCONJ",
    ", but": ",/PUNCT aber/CCONJ",
    ", so": ",/PUNCT also/ADV",
    "because": ",/PUNCT weil/SCONJ",
    "that": ",/PUNCT dass/SCONJ",
    "very": "sehr/ADV",
    "really": "wirklich/ADV",
    "not": "nicht/PART",
    "never": "nie/ADV",
    "often": "oft/ADV",
    "always": "immer/ADV",
    "where": "wo/ADV",
    "why": "warum/ADV",
    "when": "wann/ADV",
    "yesterday": "gestern/ADV",
    "this morning": "heute/ADV Morgen/NOUN",
    "last week": "letzte/ADJ Woche/NOUN",
    "next week": "nächste/ADJ Woche/NOUN",
    "every day": "jeden/DET Tag/NOUN",
    "every evening": "jeden/DET Abend/NOUN",
    "tomorrow": "morgen/ADV",
    "right away": "sofort/ADV",
    "slowly": "langsam/ADV",
    "quickly": "schnell/ADV",
    "calmly": "ruhig/ADV",
    "carefully": "vorsichtig/ADV",
    "in": "in/ADP",
    "near": "nahe/ADP",
    "behind": "hinter/ADP",
    "in front of": "vor/ADP",
    "under": "unter/ADP",
    "with": "mit/ADP",
    "to": "zu/ADP",
    "at": "an/ADP",
}

"""The words of the built-in English-French corpus, and their forms.

Each table is written like a dictionary: a word, its irregular forms, and the kinds of words that it goes with. The
functions below the tables (`_french_plural`, `_feminine` and so on) derive the regular forms.

A noun belongs to one category (`"animal"`). Verbs and adjectives name the categories that they go with, or groups of
categories in `GROUPS`, so that sentences make sense: people drink milk, not tables.

No English word has two meanings, with one deliberate exception: `bank` (see `BANK_MONEY` and `BANK_WATER`).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "ADJECTIVES",
    "BANK_MONEY",
    "BANK_WATER",
    "GIVING",
    "GO",
    "GROUPS",
    "INTRANSITIVE",
    "MANNERS",
    "NAMES",
    "NEGATIVE",
    "NOUNS",
    "POSITIVE",
    "TRANSITIVE",
    "Adjective",
    "Noun",
    "Verb",
    "categories",
]


@dataclass(frozen=True)
class Noun:
    """A noun. Its plural forms are empty if it cannot be counted (milk)."""

    english: str
    english_plural: str
    french: str
    french_plural: str
    gender: str  # "m" or "f"
    category: str


@dataclass(frozen=True)
class Adjective:
    """An adjective; `before_vowel` is the masculine form before a vowel (un bel arbre)."""

    english: str
    masculine: str
    feminine: str
    masculine_plural: str
    feminine_plural: str
    before_vowel: str
    precedes: bool  # whether it comes before the French noun
    categories: frozenset[str]

    def form(self, gender: str, plural: bool) -> str:
        if plural:
            return self.feminine_plural if gender == "f" else self.masculine_plural
        return self.feminine if gender == "f" else self.masculine


@dataclass(frozen=True)
class Verb:
    """A verb. English verbs may have two words (`look for`), the first of which is inflected."""

    english: str
    english_third: str
    english_past: str
    infinitive: str
    present: str  # third person singular
    present_plural: str
    participle: str
    future: str
    uses_etre: bool
    frames: tuple[tuple[str, tuple[str, ...]], ...]  # (group of subjects, groups of objects)

    def participle_form(self, gender: str, plural: bool) -> str:
        form = self.participle + ("e" if gender == "f" else "")
        return _french_plural(form) if plural else form


# Groups of categories that behave alike. "works" are the subjects of reviews.
GROUPS: dict[str, tuple[str, ...]] = {
    "people": ("man", "woman", "person"),
    "animals": ("animal", "prey"),
    "animate": ("man", "woman", "person", "animal", "prey"),
    "things": ("thing", "furniture"),
    "places": ("room", "place"),
    "works": ("work", "music"),
    "any": ("man", "woman", "person", "animal", "prey", "thing", "furniture", "room", "place"),
}


def categories(*names: str) -> tuple[str, ...]:
    """Return the categories that these names stand for, each once, in order; a name is a group of categories or a
    single category."""
    return tuple(dict.fromkeys(category for name in names for category in GROUPS.get(name, (name,))))


# english[/plural] french[/plural] gender; the plural "-" means that there is none
_NOUNS = {
    "man": "man/men homme m, boy garçon m, king roi m, father père m, brother frère m, uncle oncle m, prince prince m, "
    "actor acteur m",
    "woman": "woman/women femme f, girl fille f, queen reine f, mother mère f, sister sœur f, aunt tante f, "
    "princess princesse f, actress actrice f, witch sorcière f",
    "person": "kid enfant m, teacher professeur m, doctor médecin m, farmer fermier m, baker boulanger m, "
    "neighbor voisin m, nurse infirmière f, friend ami m, soldier soldat m, student étudiant m, dancer danseuse f",
    "animal": "cat chat m, dog chien m, horse cheval m, cow vache f, lion lion m, fox renard m, wolf/wolves loup m, "
    "goat chèvre f, owl hibou/hiboux m, giraffe girafe f, elephant éléphant m, bear ours m, snake serpent m",
    "prey": "mouse/mice souris f, rabbit lapin m, duck canard m, hen poule f, bird oiseau m, frog grenouille f, "
    "turtle tortue f, spider araignée f, bee abeille f, butterfly papillon m",
    "food": "cake gâteau m, apple pomme f, pear poire f, cheese fromage m, egg œuf m, carrot carotte f, "
    "tomato tomate f, strawberry fraise f, cookie biscuit m, soup soupe f, salad salade f, pie tarte f",
    "drink": "milk/- lait/- m, water/- eau/- f, tea/- thé/- m, coffee/- café/- m, juice/- jus/- m",
    "thing": "letter lettre f, door porte f, window fenêtre f, key clé f, bottle bouteille f, hat chapeau m, "
    "dress robe f, shoe chaussure f, umbrella parapluie m, car voiture f, boat bateau m, flower fleur f, "
    "knife/knives couteau m, newspaper journal m, gift cadeau m, clock horloge f, bag sac m, guitar guitare f",
    "furniture": "table table f, chair chaise f, bed lit m, tree arbre m, cupboard armoire f",
    "room": "house maison f, garden jardin m, school école f, market marché m, park parc m, church église f, "
    "kitchen cuisine f, forest forêt f, hotel hôtel m, castle château m, village village m, hospital hôpital m, "
    "farm ferme f, museum musée m",
    "place": "bridge pont m, beach plage f, mountain montagne f, island île f",
    "street": "street rue f, avenue avenue f, square place f, road route f",
    "river": "river rivière f, stream ruisseau m, lake lac m, canal canal m",
    "customer": "customer client m, banker banquier m, thief/thieves voleur m",
    "fisherman": "fisherman/fishermen pêcheur m, swimmer nageuse f, sailor marin m",
    "work": "film film m, book livre m, comedy comédie f, story histoire f, meal repas m, restaurant restaurant m, "
    "poem poème m, lesson leçon f, idea idée f, game jeu m, article article m",
    "music": "song chanson f, melody mélodie f, opera opéra m",
}
# english masculine[/feminine[/before a vowel]]: the groups that it goes with
_BEFORE_NOUN = (
    "small petit: any food street river bank, big grand: any food street river bank, "
    "beautiful beau/belle/bel: any works street river bank, old vieux/vieille/vieil: any works street river bank, "
    "new nouveau/nouvelle/nouvel: things room works, good bon/bonne: people food drink works, "
    "bad mauvais: people food drink works, pretty joli: woman animals things places, young jeune: people animals"
)
_AFTER_NOUN = (
    "black noir: animals things, white blanc/blanche: animals things room, red rouge: things food, "
    "green vert: things animals food, blue bleu: things room, yellow jaune: things room, gray gris: things animals, "
    "heavy lourd: things, modern moderne: things room works, strange étrange: any works, "
    "famous célèbre: people works places, sad triste: animate music, happy heureux: people, lazy paresseux: animate, "
    "tired fatigué: animate, hungry affamé: animate, curious curieux: animate, furious furieux: animate, "
    "dangerous dangereux: animate street river, quiet calme: animate places street river bank, slow lent: animate, "
    "wounded blessé: animate, cruel cruel/cruelle: animate, enormous énorme: animals food things, "
    "intelligent intelligent: animate, brave courageux: animate, strong fort: animate, "
    "delicious délicieux: food drink, fresh frais/fraîche: food drink, cold froid: food drink river, "
    "hot chaud: food drink, excellent excellent: works food, wonderful merveilleux: works places, "
    "funny drôle: works people, interesting intéressant: works places, fascinating fascinant: works, "
    "boring ennuyeux: works, terrible terrible: works, awful affreux: works things, "
    "ridiculous ridicule: works people, disappointing décevant: works"
)
# english[/past] infinitive [present present-plural participle future]: subjects > objects [; subjects > objects]
_TRANSITIVE = """
eat/ate manger: animate > food; animals > prey
see/saw voir voit voient vu verra: animate > animate things places
find/found trouver: animate > animate things food
follow suivre suit suivent suivi suivra: animate > animate
chase poursuivre poursuit poursuivent poursuivi poursuivra: animate > animals
love adorer: people > animate food works places
like aimer: people > animate food works places
hate détester: people > animate food works places
buy/bought acheter achète achètent acheté achètera: people > food things drink
sell/sold vendre vend vendent vendu vendra: people > food things
take/took prendre prend prennent pris prendra: people > things food
lose/lost perdre perd perdent perdu perdra: people > thing
break/broke casser: people > things
wash laver: people > things animals food
paint peindre peint peignent peint peindra: people > things places animals
draw/drew dessiner: people > things places animate
visit visiter: people > places
reach atteindre atteint atteignent atteint atteindra: animate > places
cross traverser: animate > street river place
help aider: people > animate
call appeler appelle appellent appelé appellera: people > people
drink/drank boire boit boivent bu boira: animate > drink
choose/chose choisir choisit choisissent choisi choisira: people > things food works
admire admirer: people > animate things works places
frighten effrayer effraie effraient effrayé effraiera: animate > animate
look_for chercher: animate > animate things
wait_for attendre attend attendent attendu attendra: people > people
listen_to écouter: people > people music
"""
_GIVING = """
give/gave donner: people > things food
show montrer: people > things works
send/sent envoyer envoie envoient envoyé enverra: people > things
bring/brought apporter: people > things food drink
"""
# An asterisk marks verbs whose past tense uses être.
_INTRANSITIVE = """
sleep/slept dormir dort dorment dormi dormira: animate
run/ran courir court courent couru courra: animate
cry pleurer: people
sing/sang chanter: people
dance danser: animate
swim/swam nager: animate
play jouer: animate
fall/fell *tomber: animate
stay *rester: animate
arrive *arriver: animate
leave/left *partir part partent parti partira: animate
come_back/came_back *revenir revient reviennent revenu reviendra: animate
"""

NAMES = {
    "Paul": "m",
    "Louis": "m",
    "Thomas": "m",
    "Albert": "m",
    "Marie": "f",
    "Alice": "f",
    "Sophie": "f",
    "Emma": "f",
}
MANNERS = {"slowly": "lentement", "quickly": "rapidement", "calmly": "calmement", "carefully": "prudemment"}
# The adjectives in reviews: those that only praise or only criticise a work.
POSITIVE = ("good", "excellent", "wonderful", "funny", "interesting", "fascinating", "beautiful")
NEGATIVE = ("bad", "boring", "terrible", "awful", "ridiculous", "disappointing")


def _english_plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "o", "ch", "sh")) else "s")


def _english_past(verb: str) -> str:
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else "ed")


def _french_plural(word: str) -> str:
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith(("eau", "jeu")):
        return word + "x"
    return word[:-2] + "aux" if word.endswith("al") else word + "s"


def _feminine(masculine: str) -> str:
    if masculine.endswith("eux"):
        return masculine[:-1] + "se"
    if masculine.endswith("er"):
        return masculine[:-2] + "ère"
    return masculine if masculine.endswith("e") else masculine + "e"


def _noun(entry: str, category: str) -> Noun:
    english, french, gender = entry.split()
    english, _, english_plural = english.partition("/")
    french, _, french_plural = french.partition("/")
    if english_plural == "-":
        return Noun(english, "", french, "", gender, category)
    return Noun(
        english,
        english_plural or _english_plural(english),
        french,
        french_plural or _french_plural(french),
        gender,
        category,
    )


def _adjective(entry: str, precedes: bool) -> Adjective:
    words, _, groups = entry.partition(":")
    english, french = words.split()
    forms = french.split("/")
    masculine = forms[0]
    feminine = forms[1] if len(forms) > 1 else _feminine(masculine)
    before_vowel = forms[2] if len(forms) > 2 else masculine
    plurals = (_french_plural(masculine), _french_plural(feminine))
    return Adjective(
        english, masculine, feminine, *plurals, before_vowel, precedes, frozenset(categories(*groups.split()))
    )


def _verb(entry: str) -> Verb:
    words, _, frames = entry.partition(":")
    english, infinitive, *forms = words.split()
    base, _, past = english.partition("/")
    uses_etre = infinitive.startswith("*")
    infinitive = infinitive.removeprefix("*")
    stem = infinitive[:-2]
    present, present_plural, participle, future = forms or (
        stem + "e",
        stem + "ent",
        stem + "é",
        infinitive + "a",
    )
    head, _, particle = base.partition("_")
    with_particle = f" {particle}" if particle else ""
    return Verb(
        head + with_particle,
        _english_plural(head) + with_particle,  # the third person has the same spelling rule: cries, washes, eats
        past.replace("_", " ") or _english_past(head) + with_particle,
        infinitive,
        present,
        present_plural,
        participle,
        future,
        uses_etre,
        tuple(_frame(frame) for frame in frames.split(";")),
    )


def _frame(text: str) -> tuple[str, tuple[str, ...]]:
    subjects, _, objects = text.partition(">")
    return subjects.strip(), tuple(objects.split())


def _verbs(table: str) -> dict[str, Verb]:
    verbs = (_verb(line) for line in table.strip().splitlines())
    return {verb.english: verb for verb in verbs}


NOUNS: dict[str, tuple[Noun, ...]] = {
    category: tuple(_noun(entry, category) for entry in entries.split(",")) for category, entries in _NOUNS.items()
}
ADJECTIVES: dict[str, Adjective] = {
    adjective.english: adjective
    for table, precedes in ((_BEFORE_NOUN, True), (_AFTER_NOUN, False))
    for adjective in (_adjective(entry, precedes) for entry in table.split(","))
}
TRANSITIVE = _verbs(_TRANSITIVE)
GIVING = _verbs(_GIVING)
INTRANSITIVE = _verbs(_INTRANSITIVE)
GO = _verb("go/went *aller va vont allé ira: people > room")

# The one ambiguous word. Another word in the sentence decides which of the two it is.
BANK_MONEY = _noun("bank banque f", "bank")
BANK_WATER = _noun("bank rive f", "bank")

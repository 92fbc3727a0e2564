"""Spanish in the built-in corpus: gender and number, ser and estar, the personal a, and the verb first in questions."""

from __future__ import annotations

from collections.abc import Sequence

from saccade.data.grammar.languages.language import entries, noun_key, render
from saccade.data.grammar.languages.romance import Romance
from saccade.data.grammar.meaning import (
    Adjunct,
    Clause,
    Copula,
    Entity,
    Fixed,
    Identity,
    Nominal,
    Quality,
    VerbUse,
)
from saccade.data.grammar.phrase import Rendering

__all__ = ["Spanish"]

# English, Spanish[/plural], gender
_NOUNS = entries(
    "man hombre m, boy chico m, king rey m, father padre m, brother hermano m, uncle tío m, prince príncipe m, "
    "actor actor m, woman mujer f, girl chica f, queen reina f, mother madre f, sister hermana f, aunt tía f, "
    "princess princesa f, actress actriz f, witch bruja f, kid niño m, teacher profesor m, doctor médico m, "
    "farmer granjero m, baker panadero m, neighbor vecino m, nurse enfermera f, friend amigo m, soldier soldado m, "
    "student estudiante m, dancer bailarina f, cat gato m, dog perro m, horse caballo m, cow vaca f, lion león m, "
    "fox zorro m, wolf lobo m, goat cabra f, owl búho m, giraffe jirafa f, elephant elefante m, bear oso m, "
    "snake serpiente f, mouse ratón m, rabbit conejo m, duck pato m, hen gallina f, bird pájaro m, frog rana f, "
    "turtle tortuga f, spider araña f, bee abeja f, butterfly mariposa f, cake pastel m, apple manzana f, "
    "pear pera f, cheese queso m, egg huevo m, carrot zanahoria f, tomato tomate m, strawberry fresa f, "
    "cookie galleta f, soup sopa f, salad ensalada f, pie tarta f, milk leche f, water agua f, tea té m, "
    "coffee café m, juice zumo m, letter carta f, door puerta f, window ventana f, key llave f, bottle botella f, "
    "hat sombrero m, dress vestido m, shoe zapato m, umbrella paraguas/paraguas m, car coche m, boat barco m, "
    "flower flor f, knife cuchillo m, newspaper periódico m, gift regalo m, clock reloj m, bag bolsa f, "
    "guitar guitarra f, table mesa f, chair silla f, bed cama f, tree árbol m, cupboard armario m, house casa f, "
    "garden jardín m, school escuela f, market mercado m, park parque m, church iglesia f, kitchen cocina f, "
    "forest bosque m, hotel hotel m, castle castillo m, village pueblo m, hospital hospital m, farm granja f, "
    "museum museo m, bridge puente m, beach playa f, mountain montaña f, island isla f, street calle f, "
    "avenue avenida f, square plaza f, road carretera f, river río m, stream arroyo m, lake lago m, canal canal m, "
    "customer cliente m, banker banquero m, thief ladrón m, fisherman pescador m, swimmer nadadora f, "
    "sailor marinero m, film película f, book libro m, comedy comedia f, story historia f, meal comida f, "
    "restaurant restaurante m, poem poema m, lesson lección f, idea idea f, game juego m, article artículo m, "
    "song canción f, melody melodía f, opera ópera f, bank banco m, riverbank orilla f"
)
# English, masculine[/plural], "e" if "be" is estar (a state) and not ser (a property)
_ADJECTIVES = entries(
    "small pequeño, big grande, beautiful hermoso, old viejo, new nuevo, good bueno, bad malo, pretty bonito, "
    "young joven/jóvenes, black negro, white blanco, red rojo, green verde, blue azul, yellow amarillo, gray gris, "
    "heavy pesado, modern moderno, strange extraño, famous famoso, sad triste e, happy feliz e, lazy perezoso, "
    "tired cansado e, hungry hambriento e, curious curioso, furious furioso e, dangerous peligroso, "
    "quiet tranquilo e, slow lento, wounded herido e, cruel cruel, enormous enorme, intelligent inteligente, "
    "brave valiente, strong fuerte, delicious delicioso, fresh fresco, cold frío e, hot caliente e, "
    "excellent excelente, wonderful maravilloso, funny divertido, interesting interesante, "
    "fascinating fascinante, boring aburrido, terrible terrible, awful horrible, ridiculous ridículo, "
    "disappointing decepcionante"
)
# English, infinitive, then where irregular: present (he, they), past (I, he, we, they), future (he)
_VERBS = entries(
    "eat comer, see ver ve ven vi vio vimos vieron, find encontrar encuentra encuentran, "
    "follow seguir sigue siguen seguí siguió seguimos siguieron, "
    "chase perseguir persigue persiguen perseguí persiguió perseguimos persiguieron, "
    "love adorar, like apreciar, hate odiar, buy comprar, sell vender, take tomar, lose perder pierde pierden, "
    "break romper, wash lavar, paint pintar, draw dibujar, visit visitar, "
    "reach alcanzar - - alcancé, cross cruzar - - crucé, help ayudar, call llamar, drink beber, "
    "choose elegir elige eligen elegí eligió elegimos eligieron, admire admirar, frighten asustar, "
    "look_for buscar - - busqué, wait_for esperar, listen_to escuchar, give dar da dan di dio dimos dieron, "
    "show mostrar muestra muestran, send enviar envía envían, bring traer trae traen traje trajo trajimos trajeron, "
    "sleep dormir duerme duermen dormí durmió dormimos durmieron, run correr, cry llorar, sing cantar, "
    "dance bailar, swim nadar, play jugar juega juegan jugué, fall caer cae caen caí cayó caímos cayeron, "
    "stay permanecer, arrive llegar - - llegué, leave partir, come_back volver vuelve vuelven, "
    "go ir va van fui fue fuimos fueron irá, think pensar piensa piensan, know saber sabe saben, "
    "say decir dice dicen"
)
_MODALS = {"want": ("quiere", "quieren"), "can": ("puede", "pueden"), "must": ("debe", "deben")}
# masculine, feminine, masculine plural, feminine plural
_DETERMINERS = {
    "the": "el la los las",
    "this": "este esta - -",
    "these": "- - estos estas",
    "my": "mi mi mis mis",
    "his": "su su sus sus",
    "her": "su su sus sus",
    "our": "nuestro nuestra nuestros nuestras",
    "a": "un una - -",
    "some": "- - unos unas",
    "two": "- - dos dos",
    "three": "- - tres tres",
}
_BEFORE = {"good": "buen", "bad": "mal"}  # the adjectives before the noun, short before a masculine singular
_BE = {  # (estar, tense) -> singular, plural
    (False, "past"): ("era", "eran"),
    (False, "present"): ("es", "son"),
    (True, "past"): ("estaba", "estaban"),
    (True, "present"): ("está", "están"),
}
_UNACCENTED = str.maketrans("áéíóú", "aeiou")


def _plural(word: str) -> str:
    if word[-1] in "aeiouéáó":
        return word + "s"
    if word.endswith("z"):
        return word[:-1] + "ces"
    if word[-2] in "áéíóú":  # león, leones: the stress is regular without an accent
        word = word[:-2] + word[-2:].translate(_UNACCENTED)
    return word + "es"


def _forms(infinitive: str, given: Sequence[str]) -> list[str]:
    """Return the seven forms that the corpus needs; "-" stands for a regular one."""
    stem, regular_a = infinitive[:-2], infinitive.endswith("ar")
    endings = ("a", "an", "é", "ó", "amos", "aron") if regular_a else ("e", "en", "í", "ió", "imos", "ieron")
    forms = [*(stem + ending for ending in endings), infinitive + "á"]
    for index, form in enumerate(given):
        if form != "-":
            forms[index] = form
    return forms


_GENDERS = {english: forms[1] for english, forms in _NOUNS.items()}
# the subject pronouns that are written; for the others, the verb or an adjective shows who is meant
_PRONOUNS = {"he": "él/PRON", "she": "ella/PRON", "who": "quién/PRON"}
_FIXED = {
    ".": "./PUNCT",
    "?": "?/PUNCT",
    ",": ",/PUNCT",
    "and": "y/CCONJ",
    "but": "pero/CCONJ",
    ", but": ",/PUNCT pero/CCONJ",
    ", so": ",/PUNCT así/ADV que/SCONJ",
    "because": "porque/SCONJ",
    "that": "que/SCONJ",
    "very": "muy/ADV",
    "really": "realmente/ADV",
    "not": "no/PART",
    "never": "nunca/ADV",
    "often": "frecuentemente/ADV",
    "always": "siempre/ADV",
    "where": "dónde/ADV",
    "why": "por/ADV qué/ADV",
    "when": "cuándo/ADV",
    "yesterday": "ayer/ADV",
    "this morning": "esta/DET mañana/NOUN",
    "every day": "cada/DET día/NOUN",
    "every evening": "cada/DET noche/NOUN",
    "tomorrow": "mañana/ADV",
    "right away": "enseguida/ADV",
    "slowly": "lentamente/ADV",
    "quickly": "rápidamente/ADV",
    "calmly": "tranquilamente/ADV",
    "carefully": "cuidadosamente/ADV",
    "in": "en/ADP",
    "near": "cerca/ADP de/ADP",
    "behind": "detrás/ADP de/ADP",
    "in front of": "delante/ADP de/ADP",
    "under": "debajo/ADP de/ADP",
    "with": "con/ADP",
    "to": "a/ADP",
    "at": "a/ADP",
}


class Spanish(Romance):
    code, name = "es", "Spanish"
    opening = "¿"
    genders = _GENDERS
    pronouns = _PRONOUNS
    scared = ("tenía", "tenían", "miedo", "de")
    relative_pronoun = "que"
    weeks = ("semana", "pasada", "próxima")
    fixed = _FIXED

    def nominal(self, nominal: Nominal) -> list[Rendering]:
        noun, gender = _NOUNS[noun_key(nominal.noun)]
        singular, _, plural = noun.partition("/")
        form = (plural or _plural(singular)) if nominal.plural else singular
        written = [Rendering(form, "NOUN", (nominal.head,))]
        for quality in reversed(nominal.adjectives):
            word = self.agreeing(quality, gender, nominal.plural)
            if quality.adjective in _BEFORE:
                if gender == "m" and not nominal.plural:
                    word = Rendering(_BEFORE[quality.adjective], "ADJ", (quality.word,))
                written.insert(0, word)
            else:
                written.append(word)
        forms = _DETERMINERS[nominal.determiner.key].split()
        determiner = forms[(gender == "f") + 2 * nominal.plural]
        if form == "agua" and written[0].text == "agua" and nominal.determiner.key == "the":
            determiner = "el"  # before a stressed a
        return [Rendering(determiner, nominal.determiner.words[0].tag, nominal.determiner.words), *written]

    def agreeing(self, quality: Quality, gender: str, plural: bool) -> Rendering:
        word, _, irregular = _ADJECTIVES[quality.adjective][0].partition("/")
        form = word[:-1] + "a" if gender == "f" and word.endswith("o") else word
        return Rendering((irregular or _plural(form)) if plural else form, "ADJ", (quality.word,))

    def object(self, entity: Entity | None) -> list[Rendering]:
        """Write a direct object, with "a" before people."""
        if entity is None:
            return []
        personal = [Rendering("a", "ADP", ())] if self.is_person(entity) else []
        return personal + self.entity(entity)

    def with_verb(self, adjunct: Adjunct) -> list[Rendering]:
        assert adjunct.verb is not None
        marker = "después/ADP de/ADP" if adjunct.kind == "after" else "para/ADP"
        infinitive = _VERBS[adjunct.verb.key][0]
        return [*render(marker, adjunct.marker.words), Rendering(infinitive, "VERB", adjunct.verb.words)]

    def verb(self, use: VerbUse, subject: Entity) -> list[Rendering]:
        infinitive, *given = _VERBS[use.verb]
        forms = _forms(infinitive, given)
        if use.modal is not None:
            finite = Rendering(_MODALS[use.modal.key][subject.plural], "VERB", use.modal.words[:1])
            return [finite, Rendering(infinitive, "VERB", use.main)]
        sources = use.main
        if use.tense == "present":
            form = forms[subject.plural]
        elif use.tense == "past":
            form = forms[2 + (subject.person == 3) + 2 * subject.plural]
        else:
            form, sources = (forms[6] + "n" if subject.plural else forms[6]), use.auxiliary + use.main
        return [*self.say(use.negation), Rendering(form, "VERB", sources), *self.say(use.frequency)]

    def be(self, copula: Copula | Identity, plural: bool) -> Rendering:
        state = isinstance(copula, Copula) and len(_ADJECTIVES[copula.quality.adjective]) > 1
        return Rendering(_BE[state, copula.tense][plural], "AUX", copula.be)

    def negated(self, copula: Copula, be: Rendering) -> list[Rendering]:
        return [*self.say(copula.negation), be]

    def this(self, gender: str) -> str:
        return "esta" if gender == "f" else "este"

    def question(self, clause: Clause) -> list[Rendering]:
        """Write a question, with the verb before the subject: ¿Vio el lobo la gallina?"""
        assert isinstance(clause.predicate, VerbUse)
        assert not isinstance(clause.subject, Fixed)
        mark = Rendering("¿", "PUNCT", ())
        verb, subject = self.verb(clause.predicate, clause.subject), self.entity(clause.subject)
        order = verb + subject if clause.asked else subject + verb
        return [mark, *self.say(clause.asking), *order, *self.rest(clause)]

    def settle(self, written: list[Rendering]) -> list[Rendering]:
        """Contract "a el" to "al", and "de el" to "del"."""
        settled: list[Rendering] = []
        for word in written:
            last = settled[-1] if settled else None
            if word.text == "el" and last is not None and last.text in ("a", "de"):
                form = "al" if last.text == "a" else "del"
                settled[-1] = Rendering(form, "ADP", last.sources + word.sources)
            else:
                settled.append(word)
        return settled

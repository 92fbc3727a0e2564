"""The words of the built-in corpus in Hindi."""

from __future__ import annotations

from saccade.data.grammar.languages.language import entries

__all__ = ["ADJECTIVES", "FIXED", "NAMES", "NOUNS", "VERBS"]

# English, Hindi, gender; "u" for a masculine noun in -ā that does not change in the singular (राजा)
NOUNS = entries(
    "man आदमी m, boy लड़का m, king राजा m u, father पिता m u, brother भाई m, uncle चाचा m u, prince राजकुमार m, "
    "actor अभिनेता m u, woman औरत f, girl लड़की f, queen रानी f, mother माता f, sister बहन f, aunt चाची f, "
    "princess राजकुमारी f, actress अभिनेत्री f, witch डायन f, kid बच्चा m, teacher शिक्षक m, doctor डॉक्टर m, "
    "farmer किसान m, baker बेकर m, neighbor पड़ोसी m, nurse नर्स f, friend दोस्त m, soldier सैनिक m, "
    "student छात्र m, dancer नर्तकी f, cat बिल्ली f, dog कुत्ता m, horse घोड़ा m, cow गाय f, lion शेर m, "
    "fox लोमड़ी f, wolf भेड़िया m, goat बकरी f, owl उल्लू m, giraffe जिराफ़ m, elephant हाथी m, bear भालू m, "
    "snake साँप m, mouse चूहा m, rabbit खरगोश m, duck बत्तख़ f, hen मुर्गी f, bird चिड़िया f, frog मेंढक m, "
    "turtle कछुआ m, spider मकड़ी f, bee मधुमक्खी f, butterfly तितली f, cake केक m, apple सेब m, pear नाशपाती f, "
    "cheese पनीर m, egg अंडा m, carrot गाजर f, tomato टमाटर m, strawberry स्ट्रॉबेरी f, cookie बिस्कुट m, "
    "soup सूप m, salad सलाद m, pie कचौड़ी f, milk दूध m, water पानी m, tea चाय f, coffee कॉफ़ी f, juice रस m, "
    "letter चिट्ठी f, door दरवाज़ा m, window खिड़की f, key चाबी f, bottle बोतल f, hat टोपी f, dress पोशाक f, "
    "shoe जूता m, umbrella छाता m, car गाड़ी f, boat नाव f, flower फूल m, knife चाकू m, newspaper अख़बार m, "
    "gift उपहार m, clock घड़ी f, bag थैला m, guitar गिटार m, table मेज़ f, chair कुर्सी f, bed पलंग m, "
    "tree पेड़ m, cupboard अलमारी f, house घर m, garden बग़ीचा m, school विद्यालय m, market बाज़ार m, "
    "park पार्क m, church गिरजाघर m, kitchen रसोईघर m, forest जंगल m, hotel होटल m, castle क़िला m, "
    "village गाँव m, hospital अस्पताल m, farm खेत m, museum संग्रहालय m, bridge पुल m, beach समुद्रतट m, "
    "mountain पहाड़ m, island द्वीप m, street सड़क f, avenue मार्ग m, square चौक m, road रास्ता m, river नदी f, "
    "stream धारा f, lake झील f, canal नहर f, customer ग्राहक m, banker बैंकर m, thief चोर m, fisherman मछुआरा m, "
    "swimmer तैराक m, sailor नाविक m, film फ़िल्म f, book किताब f, comedy कॉमेडी f, story कहानी f, meal भोजन m, "
    "restaurant भोजनालय m, poem कविता f, lesson पाठ m, idea विचार m, game खेल m, article लेख m, song गाना m, "
    "melody धुन f, opera ओपेरा m u, bank बैंक m, riverbank किनारा m"
)
# Those in -ā agree, but for ताज़ा. "old" is बूढ़ा for people and animals, and पुराना for things.
ADJECTIVES = entries(
    "small छोटा, big बड़ा, beautiful सुंदर, old बूढ़ा, aged पुराना, new नया, good अच्छा, bad बुरा, "
    "pretty प्यारा, young जवान, black काला, white सफ़ेद, red लाल, green हरा, blue नीला, yellow पीला, "
    "gray स्लेटी, heavy भारी, modern आधुनिक, strange अजीब, famous प्रसिद्ध, sad उदास, happy ख़ुश, lazy आलसी, "
    "tired थका, hungry भूखा, curious जिज्ञासु, furious क्रोधित, dangerous ख़तरनाक, quiet शांत, slow धीमा, "
    "wounded घायल, cruel क्रूर, enormous विशाल, intelligent बुद्धिमान, brave बहादुर, strong ताक़तवर, "
    "delicious स्वादिष्ट, fresh ताज़ा, cold ठंडा, hot गरम, excellent उत्कृष्ट, wonderful अद्भुत, funny मज़ेदार, "
    "interesting दिलचस्प, fascinating मनमोहक, boring उबाऊ, terrible भयानक, awful घटिया, ridiculous हास्यास्पद, "
    "disappointing निराशाजनक"
)
# English, [noun or particle before the verb +] stem, then what its object takes: "-" for nothing or को, or a
# postposition; "=" for a verb that agrees with the gender given (of the noun before it); "n" for no ने in the past
VERBS = entries(
    "eat खा, see देख, find पा, follow चल के_पीछे n, chase पीछा+कर का =m, love प्यार+कर से =m, like पसंद+कर, "
    "hate नफ़रत+कर से =f, buy ख़रीद, sell बेच, take ले, lose खो, break तोड़, wash धो, paint रंग, "
    "draw चित्र+बना का =m, visit दौरा+कर का =m, reach पहुँच तक n, cross पार+कर, help मदद+कर की =f, call बुला, "
    "drink पी, choose चुन, admire प्रशंसा+कर की =f, frighten डरा, look_for ढूँढ, wait_for इंतज़ार+कर का =m, "
    "listen_to सुन, give दे, show दिखा, send भेज, bring ला - n, sleep सो - n, run दौड़ - n, cry रो - n, sing गा, "
    "dance नाच - n, swim तैर - n, play खेल - n, fall गिर - n, stay ठहर - n, arrive पहुँच - n, leave निकल - n, "
    "come_back लौट - n, go जा - n, think सोच, know जान, say कह"
)
NAMES = {
    "Paul": "पॉल",
    "Louis": "लुई",
    "Thomas": "थॉमस",
    "Albert": "अल्बर्ट",
    "Marie": "मारी",
    "Alice": "ऐलिस",
    "Sophie": "सोफ़ी",
    "Emma": "एम्मा",
}
FIXED = {
    ".": "।/PUNCT",
    "?": "?/PUNCT",
    ",": ",/PUNCT",
    "and": "और/CCONJ",
    "but": "लेकिन/CCONJ",
    ", but": ",/PUNCT लेकिन/CCONJ",
    ", so": ",/PUNCT इसलिए/CCONJ",
    "because": "क्योंकि/SCONJ",
    "that": "कि/SCONJ",
    "very": "बहुत/ADV",
    "really": "सचमुच/ADV",
    "not": "नहीं/PART",
    "never": "कभी/ADV नहीं/PART",
    "often": "अक्सर/ADV",
    "always": "हमेशा/ADV",
    "where": "कहाँ/ADV",
    "why": "क्यों/ADV",
    "when": "कब/ADV",
    "yesterday": "कल/ADV",
    "this morning": "आज/ADV सुबह/NOUN",
    "last week": "पिछले/ADJ हफ़्ते/NOUN",
    "next week": "अगले/ADJ हफ़्ते/NOUN",
    "every day": "हर/DET दिन/NOUN",
    "every evening": "हर/DET शाम/NOUN",
    "tomorrow": "कल/ADV",
    "right away": "तुरंत/ADV",
    "slowly": "धीरे/ADV",
    "quickly": "जल्दी/ADV",
    "calmly": "शांति/NOUN से/ADP",
    "carefully": "सावधानी/NOUN से/ADP",
    "in": "में/ADP",
    "near": "के/ADP पास/ADP",
    "behind": "के/ADP पीछे/ADP",
    "in front of": "के/ADP सामने/ADP",
    "under": "के/ADP नीचे/ADP",
    "with": "के/ADP साथ/ADP",
}

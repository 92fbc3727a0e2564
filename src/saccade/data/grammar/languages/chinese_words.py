"""The words of the built-in corpus in Chinese."""

from __future__ import annotations

from saccade.data.grammar.languages.language import entries

__all__ = ["ADJECTIVES", "COLOURS", "FIXED", "NAMES", "NOUNS", "STATIVE", "VERBS", "WITHOUT_DE"]

# English, Chinese, classifier
NOUNS = entries(
    "man 男人 个, boy 男孩 个, king 国王 位, father 父亲 位, brother 兄弟 个, uncle 叔叔 位, prince 王子 位, "
    "actor 男演员 位, woman 女人 个, girl 女孩 个, queen 女王 位, mother 母亲 位, sister 姐妹 个, aunt 阿姨 位, "
    "princess 公主 位, actress 女演员 位, witch 女巫 个, kid 孩子 个, teacher 老师 位, doctor 医生 位, "
    "farmer 农民 个, baker 面包师 位, neighbor 邻居 个, nurse 护士 位, friend 朋友 个, soldier 士兵 个, "
    "student 学生 个, dancer 舞者 位, cat 猫 只, dog 狗 条, horse 马 匹, cow 奶牛 头, lion 狮子 头, fox 狐狸 只, "
    "wolf 狼 只, goat 山羊 只, owl 猫头鹰 只, giraffe 长颈鹿 只, elephant 象 头, bear 熊 头, snake 蛇 条, "
    "mouse 老鼠 只, rabbit 兔子 只, duck 鸭子 只, hen 母鸡 只, bird 鸟 只, frog 青蛙 只, turtle 乌龟 只, "
    "spider 蜘蛛 只, bee 蜜蜂 只, butterfly 蝴蝶 只, cake 蛋糕 块, apple 苹果 个, pear 梨 个, cheese 奶酪 块, "
    "egg 鸡蛋 个, carrot 胡萝卜 根, tomato 西红柿 个, strawberry 草莓 个, cookie 饼干 块, soup 汤 碗, "
    "salad 沙拉 份, pie 馅饼 块, milk 牛奶 杯, water 水 杯, tea 茶 杯, coffee 咖啡 杯, juice 果汁 杯, "
    "letter 信 封, door 门 扇, window 窗户 扇, key 钥匙 把, bottle 瓶子 个, hat 帽子 顶, dress 连衣裙 条, "
    "shoe 鞋 只, umbrella 雨伞 把, car 汽车 辆, boat 船 条, flower 花 朵, knife 刀 把, newspaper 报纸 份, "
    "gift 礼物 份, clock 钟 座, bag 包 个, guitar 吉他 把, table 桌子 张, chair 椅子 把, bed 床 张, tree 树 棵, "
    "cupboard 柜子 个, house 房子 座, garden 花园 座, school 学校 所, market 市场 个, park 公园 座, "
    "church 教堂 座, kitchen 厨房 间, forest 森林 片, hotel 旅馆 家, castle 城堡 座, village 村庄 个, "
    "hospital 医院 家, farm 农场 座, museum 博物馆 座, bridge 桥 座, beach 海滩 片, mountain 山 座, "
    "island 岛 座, street 街道 条, avenue 大道 条, square 广场 座, road 公路 条, river 河 条, stream 溪流 条, "
    "lake 湖 片, canal 运河 条, customer 顾客 位, banker 银行家 位, thief 小偷 个, fisherman 渔夫 位, "
    "swimmer 游泳者 位, sailor 水手 位, film 电影 部, book 书 本, comedy 喜剧 部, story 故事 个, meal 饭 顿, "
    "restaurant 餐馆 家, poem 诗 首, lesson 课 节, idea 主意 个, game 游戏 个, article 文章 篇, song 歌 首, "
    "melody 旋律 段, opera 歌剧 部, bank 银行 家, riverbank 河岸 段"
)
# "old" is 老 for people and animals, and 旧 for things.
ADJECTIVES = entries(
    "small 小, big 大, beautiful 美丽, old 老, aged 旧, new 新, good 好, bad 坏, pretty 漂亮, young 年轻, "
    "black 黑, white 白, red 红, green 绿, blue 蓝, yellow 黄, gray 灰, heavy 重, modern 现代, strange 奇怪, "
    "famous 有名, sad 悲伤, happy 快乐, lazy 懒, tired 疲倦, hungry 饥饿, curious 好奇, furious 愤怒, "
    "dangerous 危险, quiet 安静, slow 慢, wounded 受伤, cruel 残忍, enormous 巨大, intelligent 聪明, brave 勇敢, "
    "strong 强壮, delicious 美味, fresh 新鲜, cold 冷, hot 热, excellent 出色, wonderful 精彩, funny 好笑, "
    "interesting 有趣, fascinating 迷人, boring 无聊, terrible 糟糕, awful 恶劣, ridiculous 荒唐, "
    "disappointing 令人失望"
)
#: The adjectives that stand before a noun without 的.
WITHOUT_DE = frozenset(
    ["small", "big", "old", "aged", "new", "good", "bad", "black", "white", "red", "green", "blue", "yellow", "gray"]
)
#: The adjectives in "是 ... 的", and colours, which take 色 there; others take 很.
COLOURS = frozenset({"black", "white", "red", "green", "blue", "yellow", "gray"})
VERBS = entries(
    "eat 吃, see 看见, find 找到, follow 跟随, chase 追赶, love 爱, like 喜欢, hate 讨厌, buy 买, sell 卖, "
    "take 拿, lose 丢失, break 打破, wash 洗, paint 涂, draw 画, visit 参观, reach 到达, cross 穿过, help 帮助, "
    "call 叫, drink 喝, choose 选择, admire 欣赏, frighten 吓到, look_for 寻找, wait_for 等, listen_to 听, "
    "give 送给, show 展示给, send 寄给, bring 带给, sleep 睡觉, run 跑步, cry 哭, sing 唱歌, dance 跳舞, "
    "swim 游泳, play 玩, fall 摔倒, stay 停留, arrive 到达, leave 离开, come_back 回来, go 去, think 认为, "
    "know 知道, say 说"
)
#: Verbs of feeling, which take no 了.
STATIVE = frozenset({"love", "like", "hate", "think", "know"})
NAMES = {
    "Paul": "保罗",
    "Louis": "路易",
    "Thomas": "托马斯",
    "Albert": "阿尔伯特",
    "Marie": "玛丽",
    "Alice": "爱丽丝",
    "Sophie": "索菲",
    "Emma": "艾玛",
}
FIXED = {
    ".": "。/PUNCT",
    "?": "？/PUNCT",
    ",": "，/PUNCT",
    "and": "和/CCONJ",
    "but": "但是/CCONJ",
    ", but": "，/PUNCT 但是/CCONJ",
    ", so": "，/PUNCT 所以/CCONJ",
    "because": "，/PUNCT 因为/SCONJ",
    "that": "",
    "very": "非常/ADV",
    "really": "真的/ADV",
    "often": "经常/ADV",
    "always": "总是/ADV",
    "where": "在/ADP 哪里/ADV",
    "why": "为什么/ADV",
    "when": "什么时候/ADV",
    "yesterday": "昨天/ADV",
    "this morning": "今天/ADV 早上/NOUN",
    "last week": "上/ADJ 周/NOUN",
    "next week": "下/ADJ 周/NOUN",
    "every day": "每/DET 天/NOUN",
    "every evening": "每/DET 晚/NOUN",
    "tomorrow": "明天/ADV",
    "right away": "立刻/ADV",
    "slowly": "慢慢地/ADV",
    "quickly": "快速地/ADV",
    "calmly": "平静地/ADV",
    "carefully": "小心地/ADV",
}

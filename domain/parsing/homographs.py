"""Well-known names that are ordinary words, too: in these surroundings they are the word (3-results §3.3).

A name that is not listed has one meaning, the brand. A row is what stands around ``@``, the name, in folded text.
It has to be certain: whoever doubts a row leaves it out, because a mention missed is as wrong as one too many.
"""

import re
from functools import lru_cache
from typing import Final

_BEFORE: Final = 16
_AFTER: Final = 24
_NAME: Final = "\ue000"

_MADE: Final = r"手机|电脑|公司|集团|系统|商店|笔记本|平板|耳机|官网|股价|发布会|品牌|门店|账号|设备|用户"

_ROWS: Final = {
    # food
    "苹果": (
        r"@[汁醋酱泥肉脯酸块丁]|@(?:派(?![出对遣])|树(?!立)|园(?!区)|皮(?![革套])|核(?!心)|酒(?!店)|花(?![费了钱])|香(?!港)|干(?!掉)|片(?!区)|蛋糕|沙拉|馅)"
        rf"|(?:青|吃(?:了|个|一个|些|点)?|颗|削|洗|榨|[一两三四五六七八九十半几每]个)@(?!{_MADE})"
        r"|(?:香蕉|橙子?|梨|葡萄|草莓|西瓜)[、和与及,]@|@[、和与及,](?:香蕉|橙|梨子?|葡萄|草莓|西瓜|芒果)"
    ),
    "小米": (
        r"@[粥辣椒羹]|@(?:饭(?![堂店圈])|糕(?!手)|酒(?!店)|汤(?!姆)|面(?![板向对临])|加步枪|锅巴)|[黄煮熬]@"
        r"|@(?:、|和|与|,)?(?:玉米|大米|燕麦|高粱|红枣|南瓜|糯米|糙米|黑米|荞麦|绿豆|杂粮)"
        r"|(?:玉米|大米|燕麦|高粱|糯米|糙米|黑米|荞麦|藜麦)(?:、|和|与|,)@"
    ),
    "豆包": r"(?:红|黏|粘|蒸|糯米)@",
    "土豆": r"@[丝泥片饼块烧炖粉]|(?:炖|炸|烤|削|吃|炒)@",
    "豆瓣": r"@[酱鱼]|(?:郫县|蚕|辣)@",
    "瓜子": r"@[仁壳油脸]|(?:嗑|吃|炒|葵花|西|南)@",
    "西瓜": r"@[汁皮籽霜子]|(?:吃|切|无籽|大)@",
    "亚马逊": r"@(?:河(?![南北])|州|雨林|流域|丛林|盆地|森林)",
    # things
    "贝壳": r"@(?:里(?![找看买租搜])|类|粉|饰|项链|沙)|(?:捡|扇|珍珠|拾)@",
    "猫眼": r"@(?:石(?!景)|锁|防盗)|(?:电子|防盗门的?|门上的?)@",
    "元宝": r"@形(?!态)|(?:金|银|纸|烧|大)@",
    "火山": r"@(?:爆发|灰|岩|口(?!碑)|喷|泥|石)|(?:活|死|海底|座)@",
    "长城": r"(?:万里|登|爬|八达岭|慕田峪|居庸关|金山岭)@|@(?:脚下|内外|沿线|景区|站|遗址)",
    "红旗": r"(?:五星|小|流动|插|举|面)@|@(?:飘|招展|手(?![动机])|渠(?!道)|迎风|下的)",
    "三星": r"@(?:级(?!差)|堆|米其林)|米其林@",
    # conditions
    "美的": (
        r"(?:最|真|挺|特别)@(?=(?:[人事物风景画]|声音|东西|地方|$))|(?:对|追求)@(?=(?:追求|向往|感受|事物|享受|$))"
        r"|(?:[很更太极唯柔秀壮绝凄健肥鲜俊醇]|非常|十分|如此|这么|那么|多么)@"
    ),
    "平安": (
        r"@(?:夜|无事|喜乐|归来|回家|到家|到达|抵达|出行|度过|是福|扣(?![除费款])|符(?!合))"
        r"|(?:一路|祝.{0,3}|报|出入|平平|岁岁|人人|保佑.{0,3}|(?<!需)求|(?<![投参承])保|家人)@"
        r"(?!银行|保险|证券|集团|人寿|产险|科技|好|健康险)"
    ),
    "自如": (
        r"(?:运用|应付|应对|来去|操纵|操作|伸缩|挥洒|进退|收放|切换|神态|泰然|控制|驾驭|转动|活动|行动|使用|调节)@"
        r"(?![租房寓]|app)"
    ),
    "现代": (
        r"@(?:社会|人|化|生活|感|建筑|舞|诗|汉语|文学|艺术|家居|简约|农业|工业|服务业|战争|医学|物流|办公|装修|城市"
        r"|家庭|主义|教育|风格|科学|技术|都市|文明|史|女性)|(?:(?<![然最以之])后|近|更|很|越来越)@"
    ),
    "理想": (
        r"@(?:的(?:选择|之选|方案|伴侣|状态|情况|条件|效果|结果|目标(?![用客])|工具|场所|温度|环境|生活|搭档|地点|解决方案|人选|居所)"
        r"|之选|型(?!号)|体重|国(?![际产内])|主义|化|信念|抱负|状态)|(?:[不最很较更非]|比较|十分|不太|不够|远大|人生|实现|[我你他她]们?的)@(?!汽车|l\d|one|mega)"
    ),
    "大众": (
        r"@(?:点评|化|文化|传媒|传播|消费者|市场(?![份占表])|口味|认知|审美|群体|心理|舆论|创业|娱乐)"
        r"|(?:普通|社会|人民|广大|群众|面向|贴近|受|公|小)@(?!汽车|集团)"
    ),
    "荣耀": r"(?:王者|无上|至高|国家|集体|家族|共享)@|@(?:时刻|感(?!应)|归)",
    "吉利": r"(?:图个?|不|讨个?|吉祥|大吉大|[更很]|英)@|@(?:话(?!题)|的(?:数字|日子|意思|象征|寓意|话))",
    "光明": r"(?:前途|一片|充满|走向|带来|重见|追求|黑暗与|黑暗和)@|@(?:磊落|正大|的?(?:前景|未来|前途|之路))",
    "统一": (
        r"(?:国家|祖国|和平|全国|进行|不|实现|大|高度|完全)@|@的?(?:为|成|到|起来|管理|标准|规划|部署|口径|安排|战线|思想|采购"
        r"|认证|收口|接口|规范|配置|身份|平台|格式|入口|调度|使用|定价|价格|风格|行动|认识|考试|编号|配送|收费|指挥|领导|大业|布局"
        r"|监管|数据|账号|登录|权限|工作|办公|视图|存储|收集|处理|回复|着装|招生)"
    ),
    "老板": r"(?:公司|大|女|我们?|小|当|做|位|个|各位|的)@(?!电器|油烟机|牌|烟机|和方太)|@(?:[说娘们要让]|要求|自己)",
    "星火": r"@(?:燎原|计划)|星星@",
    # what one does
    "联想": (
        r"(?<!从)@到(?![底家场店期位\d])|@起(?![步家诉源初])|@(?:记忆|词)|(?:让人|使人|令人|产生|引发|引起|浮想|由此|不禁|不由得|自然|丰富的?|美好的?)@(?!集团|电脑|笔记本)"
    ),
    "奔驰": r"(?:飞速|纵马|策马|骏马|列车|火车)@|@在.{0,8}(?:草原|大地|路上|原野|公路|铁路|田野)",
    "快手": r"@(?:菜|早餐|料理|便当|家常)|(?:家常|一把|多面)@",
    "去哪儿": r"(?:[想要该你您能都]|适合|周末|假期|不知道|到底)@(?!网|旅行|app|的)|@(?:玩|了(?!解)|吃|呢|吗|比较好)",
    "饿了么": r"(?:[你您]|肚子|都)@(?=[?？!]|$)",
    "百度": r"(?<!第)[零一二三四五六七八九十百千几数]@(?!百科|网盘)",
    "海底捞": r"@(?:起(?![诉步家源])|出(?!新)|针|月|沉船)",
    "匹克": r"(?:奥林|皮)@",
    "一加": r"@(?:一(?:等|是|大于)|等于)|统@",
    "钉钉": r"@子(?!公司)",
    # English
    "apple": (
        r"@ (?:pies?|juice|trees?|ciders?|sauce|orchards?|crumbles?|tarts?|strudel|vinegar|cakes?|butter|skins?"
        r"|peels?|blossoms?|flavou?r)\b"
    ),
    "amazon": r"@ (?:rain ?forests?|rivers?|basin|jungle|parrots?|tribes?)\b",
    "target": r"@ audiences?\b",
    "square": r"@ (?:feet|foot|met(?:er|re)s?|miles?|root|inch(?:es)?|kilomet(?:er|re)s?)\b",
    "gap": r"@ (?:year|analysis)\b|\b(?:wage|pay|skills|generation) @\b",
    "meta": r"@(?: |-)(?:descriptions?|tags?|analys[ei]s|titles?|keywords?)\b",
    "slack": r"@ (?:tide|variables?)\b|\bcut .{1,10} @",
    "line": r"\b(?:bottom|product|finish|starting|assembly|subject|command) @\b",
    "zoom": r"@ (?:lens(?:es)?|level)\b",
    "shell": r"@ (?:scripts?|commands?|prompt)\b",
    "visa": r"@ (?:applications?|requirements?|interviews?|on arrival)\b|\b(?:work|student|tourist) @",
    "orange": r"@ (?:juice|peels?|trees?|county)\b",
}

_COMMON_WORDS: Final = re.compile(
    r"access|air|ally|always|amazon|apple|arc|bear|blackboard|blender|bolt|box|brave|buffer|canvas|"
    r"chase|coach|craft|cursor|discover|dove|drift|edge|element|excel|express|fidelity|figure|flow|"
    r"focus|front|gain|gap|ghost|glass|harvest|hive|home|impact|indeed|insight|keep|line|linear|"
    r"loom|make|mars|match|medium|motion|notion|oasis|operator|orange|outlook|pages|patch|pilot|"
    r"pipe|prime|progress|publisher|pulse|ramp|range|render|sage|segment|sense|shell|signal|slack|"
    r"slate|spark|spring|sprint|square|stack|stripe|sunrise|surface|swift|target|teams|tide|tower|"
    r"twist|visa|wave|windows|wise|wish|word|zoom"
)


@lru_cache(maxsize=4096)
def _compiled(name: str) -> re.Pattern[str] | None:
    row = _ROWS.get(name)
    return None if row is None else re.compile(row.replace("@", _NAME))


def is_common_word(name: str) -> bool:
    """Whether English answers write the folded ``name`` small only where they mean the word."""
    return _COMMON_WORDS.fullmatch(name) is not None


def is_ordinary_word(folded: str, start: int, end: int) -> bool:
    """Whether the name at folded ``[start, end)`` is the word that it also is: 小米 in 小米粥, Apple in apple pie."""
    pattern = _compiled(folded[start:end])
    if pattern is None:
        return False
    around = folded[max(0, start - _BEFORE) : start] + _NAME + folded[end : end + _AFTER]
    return pattern.search(around) is not None

"""Chinese phrases that deny knowledge of a name (3-results §3.3)."""

import re
from typing import Final

from domain.parsing.denials import NAMES, Denials

_FIND: Final = (
    r"(?:找到|查到|查找到|查询到|搜索到|搜到|检索到|获取到?|获得|发现|收录|看到|提到|提及|涉及|包含"
    r"|听说过?|听过|见过|了解到?|得到|查找|查询)"
)
_INFO: Final = r"(?:信息|资料|内容|结果|数据|记录|报道|介绍|消息|情报|线索|证据|词条|文献|品牌|公司|产品|企业)"
_ADJECTIVES: Final = (
    r"(?:的|任何|相关|有关|公开|详细|具体|明确|可靠|直接|确切|权威|官方|足够|更多|可信|有效|准确|可查"
    r"|可用|最新|太多|过多|搜索|检索|背景|基本|公司|产品|品牌|企业|和|与|及|或|、|\s)"
)
_NEGATION: Final = r"(?:没有?|没能|未能?|无法|并未|尚未|暂[未无]|并无|查无|缺[乏少]|不能|均未|都没有?)"
_UNFOUND: Final = r"(?:找不到|查不到|搜不到|查询不到|检索不到|查无)"
_ABOUT: Final = r"(?:关于|有关|与|和|对于|针对|对)"
_KIND: Final = r"(?:名为|名叫|叫做?|称为|[一这][个家款]|该|任何|的|公司|品牌|产品|企业|软件|\s|,)"
_TAIL: Final = rf"{_ADJECTIVES}{{0,6}}{_INFO}"
_END: Final = r"[,。.!?;:()|\s]|$"
# "Acme这家公司": the name itself, whereas "Acme这家公司的财报" leaves it known.
_ITSELF: Final = r"\s?(?:这[个家款种]|该)?(?:公司|品牌|产品|企业|软件|工具|平台|应用|服务|名字|名称)?"
_SOURCES: Final = r"(?:结果|来源|资料|数据库?|信息|文档|网页|知识库|材料|内容|文献|文章|网络|互联网)之?[中里内上]面?"
_WHICH: Final = (
    r"(?:搜索|检索|查询|引用|参考|提供|现有|已有|当前|目前|本次|上述|这些|所有|任何|给定|公开|相关|[我您你的到\s]){0,6}"
)

_PHRASES: Final = (
    rf"{_NEGATION}(?:能|有|在.{{1,20}}?[中里内上])?{_FIND}{_ADJECTIVES}{{0,6}}"
    rf"(?:{_ABOUT}\s?)?{_KIND}{{0,6}}{NAMES}{_ITSELF}(?=\s?{_TAIL}|{_END}|相关|的存在)",
    rf"(?:{_NEGATION}|{_UNFOUND})"
    rf"(?:{_FIND}|提供|确认|掌握|存储|拥有|有)?{_ADJECTIVES}{{0,6}}(?:{_ABOUT}\s?)?"
    rf"{_KIND}{{0,6}}{NAMES}\s?{_TAIL}",
    rf"{_UNFOUND}{_KIND}{{0,6}}{NAMES}{_ITSELF}(?={_END})",
    rf"(?:{_NEGATION}|不存在){_ABOUT}\s?{_KIND}{{0,6}}{NAMES}\s?{_TAIL}",
    rf"不存在{_KIND}{{0,6}}{NAMES}{_ITSELF}(?={_END}|的?{_INFO})",
    rf"(?:不(?:太|是很|怎么)?(?:了解|熟悉|认识|知道|清楚)|没听说过|没有听说过|未听说过)\s?"
    rf"{_KIND}{{0,6}}{NAMES}{_ITSELF}(?={_END}|是)",
    rf"对{_KIND}{{0,4}}\s?{NAMES}\s?{_KIND}{{0,4}}"
    r"(?:不太?|并不|没有?什?么?)(?:了解|熟悉|印象|认识)",
    rf"{_ABOUT}?\s?{NAMES}\s?(?:{_TAIL})?[,:|]?\s?"
    r"(?:目前|暂时|在.{1,20}?[中里内上]|我|我们|尚|并|均|还|也|\s){0,4}"
    rf"(?:{_NEGATION}|无|找不到|查不到)(?:被|能|有)?"
    rf"(?:{_ADJECTIVES}{{1,6}}{_INFO}(?:{_END})"
    rf"|{_FIND}(?:{_TAIL})?(?:{_END})|信息|资料|数据)",
    rf"{NAMES}\s?(?:目前|暂时)?[并均都也还尚从暂]?(?:未|没有?|不)曾?被?"
    rf"(?:(?:存在|出现|见|收录|提及|提到|列)[在于]?|[在于]){_WHICH}{_SOURCES}"
    rf"(?={_END}|被?(?:出现|提及|提到|列出|找到|显示|收录))",
    rf"{_SOURCES}[也都均并还暂,\s]{{0,3}}(?:没有?|未|无|不)"
    rf"(?:曾|见|出现|提及?|提到|找到|看到|发现|包含|包括|收录|涉及|显示|存在|任何|关于|有关|\s){{0,4}}"
    rf"{_KIND}{{0,6}}{NAMES}{_ITSELF}(?=\s?{_TAIL}|{_END})",
    rf"(?:无法|不能|没法|难以|未能)(?:确认|确定|核实|证实|验证|判断|查证){_KIND}{{0,6}}{NAMES}{_ITSELF}\s?"
    r"(?:是否(?:真实|真的|确实)?存在|的(?:存在|真实性)|存在与否|是否真实)",
)
# "你可能没听说过Acme" and "如果您找不到Acme" present Acme to the reader.
_OTHERS: Final = re.compile(
    r"(?:[你您]|用户|读者|客户|消费者|大家|谁|(?<![本个])人|(?<!其)他|她)"
    r"(?:们|可能|也许|或许|大概|恐怕|还|也|都|之前|以前|此前|从来?|会|就|应该|未必|尚|并|暂时|目前|现在|真的?){0,5}\Z"
    r"|(?:如果|若|要是|假如|倘若|万一)[^,。]{0,8}\Z"
)

CHINESE: Final = (Denials(tuple(map(re.compile, _PHRASES)), _OTHERS),)

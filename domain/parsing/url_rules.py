"""Tables of URL normalisation: tracking parameters and redirect wrappers (3-results §3.3)."""

import re
from typing import Final, NamedTuple

TRACKING: Final = re.compile(
    r"(?:utm_\w*|mtm_\w+|pk_(?:campaign|kwd|source|medium)|hsa_\w+|_hs\w+|at_(?:medium|campaign)"
    r"|gclid|gclsrc|dclid|gbraid|wbraid|gad_source|gad_campaignid|srsltid|_ga|_gl"
    r"|fbclid|fb_action_ids|fb_action_types|fb_source|igshid|igsh|mibextid"
    r"|msclkid|yclid|ysclid|twclid|ttclid|li_fat_id|epik|rdt_cid|sccid|irclickid|wickedid"
    r"|mc_cid|mc_eid|mkt_tok|vero_id|oly_anon_id|oly_enc_id|s_cid|hsctatracking"
    r"|spm|scm|spm_id_from|from_spmid|vd_source|bd_vid|bdmsclkid|qhclickid|qz_gdt|gdt_vid"
    r"|share_(?:source|medium|plat|session_id|tag|from|token|uid|times|code)|sharefrom|sharer_\w+)",
    re.IGNORECASE,
)
"""Names of query parameters that only say how a visitor came."""

HOST_TRACKING: Final[dict[str, frozenset[str]]] = {
    "youtube.com": frozenset({"si", "feature", "pp", "ab_channel"}),
    "youtu.be": frozenset({"si", "feature"}),
    "x.com": frozenset({"s", "t", "ref_src", "ref_url"}),
    "twitter.com": frozenset({"s", "t", "ref_src", "ref_url"}),
    "open.spotify.com": frozenset({"si"}),
    "mp.weixin.qq.com": frozenset(
        {"chksm", "scene", "srcid", "from", "isappinstalled", "clicktime", "enterid", "sharer"}
    ),
}
"""Parameters that track on one host (and its subdomains) but may carry meaning elsewhere."""


class Wrapper(NamedTuple):
    """A redirect page whose target stands in a query parameter.

    ``host`` matches the host itself, without ``www.``; ``path`` matches the whole
    path, without trailing slash.
    """

    host: re.Pattern[str]
    path: re.Pattern[str]
    parameters: tuple[str, ...]


def _wrapper(host: str, path: str, *parameters: str) -> Wrapper:
    return Wrapper(re.compile(host), re.compile(path), parameters)


WRAPPERS: Final = (
    _wrapper(r"google\.(?:com?\.)?[a-z]{2,3}", r"/url", "q", "url"),
    _wrapper(r"google\.(?:com?\.)?[a-z]{2,3}", r"/imgres", "imgrefurl"),
    _wrapper(r"(?:[a-z]{2}\.|www2\.)?bing\.com", r"/ck/a", "u"),
    _wrapper(r"bing\.com", r"/(?:alink/link|news/apiclick\.aspx)", "url"),
    _wrapper(r"duckduckgo\.com", r"/l", "uddg"),
    _wrapper(r"(?:lm?\.)?(?:facebook|messenger)\.com", r"/(?:l|flx/warn)(?:\.php)?", "u"),
    _wrapper(r"l\.instagram\.com", r"/", "u"),
    _wrapper(r"l\.threads\.(?:net|com)", r"/", "u"),
    _wrapper(r"(?:m\.)?youtube\.com", r"/redirect", "q"),
    _wrapper(r"linkedin\.com", r"/(?:redir/redirect|safety/go)", "url"),
    _wrapper(r"out\.reddit\.com", r"/.*", "url"),
    _wrapper(r"steamcommunity\.com", r"/linkfilter", "u", "url"),
    _wrapper(r"(?:m\.)?vk\.com", r"/away(?:\.php)?", "to"),
    _wrapper(r"slack-redir\.net", r"/link", "url"),
    _wrapper(r"t\.umblr\.com", r"/redirect", "z"),
    _wrapper(r"link\.zhihu\.com", r"/", "target"),
    _wrapper(r"link\.juejin\.cn", r"/", "target"),
    _wrapper(r"link\.csdn\.net", r"/", "target"),
    _wrapper(r"link\.segmentfault\.com", r"/", "url", "enc"),
    _wrapper(r"(?:gitee\.com|infoq\.cn|sspai\.com)", r"/link", "target"),
    _wrapper(r"jianshu\.com", r"/go-wild", "url"),
    _wrapper(r"links\.jianshu\.com", r"/go", "to"),
    _wrapper(r"oschina\.net", r"/action/GoToLink", "url"),
    _wrapper(r"douban\.com", r"/link2", "url"),
    _wrapper(r"(?:weibo\.cn|t\.cn|weibo\.com)", r"/sinaurl", "u", "toasturl"),
    _wrapper(r"c\.pc\.qq\.com", r"/(?:middlem|ios|middleb)\.html", "pfurl", "url"),
    _wrapper(r"mail\.qq\.com", r"/cgi-bin/readtemplate", "gourl"),
)

OPAQUE: Final = (
    _wrapper(r"vertexaisearch\.cloud\.google\.com", r"/grounding-api-redirect/.+"),
    _wrapper(r"(?:m\.)?(?:baidu|sogou|so)\.com", r"/link"),
    _wrapper(r"t\.co", r"/.+"),
)
"""Wrappers whose target is a token that nothing offline can resolve; they stay as they are."""

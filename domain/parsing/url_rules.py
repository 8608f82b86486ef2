"""Tables of URL normalisation: tracking parameters and redirect wrappers (3-results §3.3)."""

import re
from typing import Final, NamedTuple

TRACKING: Final = re.compile(
    r"(?:utm_\w*|utm|mtm_\w+|pk_(?:campaign|kwd|source|medium)|hsa_\w+|_hs\w+|at_(?:medium|campaign)"
    r"|gclid|gclsrc|dclid|gbraid|wbraid|gad_source|gad_campaignid|srsltid|_ga|_gl"
    r"|fbclid|fb_action_ids|fb_action_types|fb_source|igshid|igsh|mibextid"
    r"|msclkid|yclid|ysclid|twclid|ttclid|li_fat_id|epik|rdt_cid|sccid|irclickid|wickedid"
    r"|mc_cid|mc_eid|mkt_tok|vero_id|oly_anon_id|oly_enc_id|s_cid|hsctatracking|__hs\w+|__s|_kx|ef_id|s_kwcid"
    r"|ns_(?:campaign|mchannel|source|linkname|fee)|guccounter|guce_referrer(?:_sig)?|_branch_match_id|_openstat"
    r"|matomo_\w+|piwik_\w+|elqtrack(?:id)?|ck_subscriber_id|bsft_\w+|zanpid|dicbo|p[df]_rd_\w+|wbraid"
    r"|spm|scm|spm_id_from|from_spmid|vd_source|bd_vid|bdmsclkid|qhclickid|qz_gdt|gdt_vid"
    r"|share_(?:source|medium|plat|session_id|tag|from|token|uid|times|code)|sharefrom|sharer_\w+|isappinstalled)",
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
        {"chksm", "scene", "subscene", "ascene", "srcid", "from", "clicktime", "enterid", "sharer", "mpshare"}
        | {
            "sessionid",
            "exportkey",
            "pass_ticket",
            "wx_header",
            "devicetype",
            "nettype",
            "lang",
            "version",
            "poc_token",
        }
    ),
    "bilibili.com": frozenset({"from_source", "seid", "unique_k", "buvid", "is_story_h5", "plat_id", "timestamp"}),
    "xiaohongshu.com": frozenset(
        {"xsec_token", "xsec_source", "xhsshare", "appuid", "apptime", "share_id", "shareredid"}
    ),
    "baijiahao.baidu.com": frozenset({"wfr", "for"}),
    "csdn.net": frozenset({"ops_request_misc", "request_id", "biz_id"}),
    "linkedin.com": frozenset({"trk", "trackingid", "refid", "lipi"}),
    "tiktok.com": frozenset({"_t", "_r", "is_from_webapp", "sender_device", "is_copy_url"}),
    "reddit.com": frozenset({"share_id", "rdt"}),
    "medium.com": frozenset({"source"}),
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
    _wrapper(r"google\.(?:com?\.)?[a-z]{2,3}", r"/interstitial", "url"),
    _wrapper(r"google\.(?:com?\.)?[a-z]{2,3}|googleadservices\.com", r"/(?:pagead/)?aclk", "adurl"),
    _wrapper(r"translate\.google\.(?:com?\.)?[a-z]{2,3}", r"/translate", "u"),
    _wrapper(r".+\.safelinks\.protection\.outlook\.com", r"/", "url"),
    _wrapper(r"disq\.us", r"/(?:url|\?.*)?", "url"),
    _wrapper(r"go\.skimresources\.com", r"/", "url"),
    _wrapper(r"(?:so\.)?toutiao\.com", r"/search/jump", "url"),
    _wrapper(r"link\.wtturl\.cn", r"/", "target"),
    _wrapper(r"link\.jianshu\.com", r"/", "t"),
    _wrapper(r"cloud\.tencent\.com", r"/developer/tools/blog-entry", "target"),
    _wrapper(r"yuque\.com", r"/r/goto", "url"),
    _wrapper(r"shimo\.im", r"/outlink/(?:black|gray)", "url"),
    _wrapper(r"docs\.qq\.com", r"/scenario/link\.html", "url"),
    _wrapper(r"(?:afdian\.(?:net|com)|xie\.infoq\.cn)", r"/link", "target"),
    _wrapper(r"weixin110\.qq\.com", r"/cgi-bin/.+", "url"),
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

EMBEDDING: Final = (
    _wrapper(r"google\.(?:com?\.)?[a-z]{2,3}", r"/amp/s/([^/].*)"),
    _wrapper(r"(?:[^/]+\.)?cdn\.ampproject\.org", r"/[a-z]/s/([^/].*)"),
    _wrapper(r"r\.search\.yahoo\.com", r"/.*?/RU=(https?%3[Aa][^/]+)(?:/.*)?"),
    _wrapper(r"r\.jina\.ai", r"/(https?://.*)"),
    _wrapper(r"urldefense\.(?:com|us)", r"/v3/__(https?:/.*?)__;.*"),
)
"""Wrappers whose target stands in the path: group 1 of ``path``, which sees the query, too."""

MIRROR: Final = ".translate.goog"
"""Below it a translated page has a host made of its own."""

OPAQUE: Final = (
    _wrapper(r"vertexaisearch\.cloud\.google\.com", r"/grounding-api-redirect/.+"),
    _wrapper(r"(?:m\.)?(?:baidu|sogou|so)\.com", r"/link"),
    _wrapper(r"t\.co|t\.cn|bit\.ly|tinyurl\.com|lnkd\.in", r"/.+"),
    _wrapper(r"news\.google\.com", r"/(?:rss/)?(?:articles|read)/.+"),
)
"""Wrappers whose target is a token that nothing offline can resolve; they stay as they are."""

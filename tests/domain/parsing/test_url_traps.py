"""URLs as answers really cite them: wrappers, mirrors, trackers, lookalikes (3-results §3.3). One row each."""

import base64

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from domain.parsing.domains import Owner
from domain.parsing.result import parse_answer
from domain.parsing.urls import normalize_url


def bing(target: str) -> str:
    token = base64.urlsafe_b64encode(target.encode()).decode().rstrip("=")
    return f"https://www.bing.com/ck/a?!&&p=5f&ptn=3&u=a1{token}&ntb=1"


SPELLINGS = [
    ("https://acme.com/a?utm_source=openai&utm_medium=x", "https://acme.com/a"),
    ("https://acme.com/a?id=1&utm_campaign=y&page=2", "https://acme.com/a?id=1&page=2"),
    ("https://acme.com/a?gclid=1&gbraid=2&wbraid=3&gad_source=4", "https://acme.com/a"),
    ("https://acme.com/a?__hstc=1&_hsenc=2&hsCtaTracking=3", "https://acme.com/a"),
    ("https://acme.com/a?isappinstalled=0&id=3", "https://acme.com/a?id=3"),
    ("https://acme.com/a?ref=home", "https://acme.com/a?ref=home"),
    ("https://acme.com/a?source=x", "https://acme.com/a?source=x"),
    ("https://medium.com/p/1?source=rss", "https://medium.com/p/1"),
    ("https://www.bilibili.com/video/BV1?spm_id_from=1&vd_source=2&p=3", "https://bilibili.com/video/BV1?p=3"),
    ("https://baijiahao.baidu.com/s?id=9&wfr=spider&for=pc", "https://baijiahao.baidu.com/s?id=9"),
    (
        "https://mp.weixin.qq.com/s?__biz=A&mid=1&idx=1&sn=b&chksm=c&scene=27#wechat_redirect",
        "https://mp.weixin.qq.com/s?__biz=A&mid=1&idx=1&sn=b",
    ),
    ("https://www.xiaohongshu.com/explore/1?xsec_token=a&xsec_source=pc", "https://xiaohongshu.com/explore/1"),
    ("https://blog.csdn.net/u/article/details/1?spm=1001.2&request_id=7", "https://blog.csdn.net/u/article/details/1"),
    ("https://www.linkedin.com/posts/a?trk=public_post", "https://linkedin.com/posts/a"),
    ("https://acme.com/a?=1&b", "https://acme.com/a?=1&b"),
    ("https://acme.com/a%2Fb", "https://acme.com/a%2Fb"),
    ("https://acme.com/%7Eann", "https://acme.com/%7Eann"),
    ("https://acme.com/a;v=1", "https://acme.com/a;v=1"),
    ("https://acme.com/a,b(c)", "https://acme.com/a,b(c)"),
    ("https://acme.com/A/B?C=D", "https://acme.com/A/B?C=D"),
    ("HTTP://WWW.ACME.COM:80/A", "https://acme.com/A"),
    ("https:/acme.com/a", "https://acme.com/a"),
    ("https:acme.com/a", "https://acme.com/a"),
    ("https:///acme.com/a", "https://acme.com/a"),
    ("https://acme.com/a/./b/../c/", "https://acme.com/a/c"),
    ("https://acme.com/%2e%2e/a", "https://acme.com/a"),
    ("https://acme.com?a=1", "https://acme.com/?a=1"),
    ("https://acme.com#top", "https://acme.com/"),
    ("https://acme.com/#", "https://acme.com/"),
    ("https://acme.com/app#!/plans/", "https://acme.com/app#!/plans"),
    ("https://0300.0250.1.1/", "https://192.168.1.1/"),
    ("https://0xC0000207/", "https://192.0.2.7/"),
    ("https://[2606:4700:0::1111]/a", "https://[2606:4700::1111]/a"),
    ("https://faß.de/", "https://xn--fa-hia.de/"),
    ("https://аcme.com/", "https://xn--cme-5cd.com/"),
    ("https://例子.中国/路径", "https://xn--fsqu00a.xn--fiqs8s/%E8%B7%AF%E5%BE%84"),
    ("https://acme.com/a?q=a+b%20c", "https://acme.com/a?q=a+b%20c"),
    ("https://acme.com/a?q=100%25&utm_id=1", "https://acme.com/a?q=100%25"),
    (
        "https://www.google.com/search?q=weather in oslo, norway",
        "https://google.com/search?q=weather%20in%20oslo,%20norway",
    ),
    ("https://web.archive.org/web/2020/https://acme.com/", "https://web.archive.org/web/2020/https://acme.com"),
]

WRAPPED = [
    (bing("https://www.acme.com/a?utm_source=b"), "https://acme.com/a"),
    (bing("https://acme.com/路"), "https://acme.com/%E8%B7%AF"),
    ("https://cn.bing.com/ck/a?u=a1aHR0cHM6Ly9hY21lLmNvbS94", "https://acme.com/x"),
    ("https://www.google.co.uk/url?esrc=s&url=https://acme.com/a%3Fid%3D1&usg=x", "https://acme.com/a?id=1"),
    ("https://www.google.com/aclk?sa=l&adurl=https://acme.com/", "https://acme.com/"),
    ("https://translate.google.com/translate?sl=en&tl=de&u=https://acme.com/a", "https://acme.com/a"),
    ("https://www-acme-com.translate.goog/a?_x_tr_sl=en&_x_tr_tl=de&id=1", "https://acme.com/a?id=1"),
    ("https://my--shop-example-com.translate.goog/", "https://my-shop.example.com/"),
    ("https://www.google.com/amp/s/acme.com/a%3Fid=1", "https://acme.com/a?id=1"),
    ("https://www-acme-com.cdn.ampproject.org/v/s/www.acme.com/a?amp_js_v=1", "https://acme.com/a?amp_js_v=1"),
    (
        "https://r.search.yahoo.com/_ylt=A/RV=2/RE=1/RO=10/RU=https%3a%2f%2facme.com%2fa/RK=2/RS=x-",
        "https://acme.com/a",
    ),
    ("https://r.jina.ai/https://acme.com/a", "https://acme.com/a"),
    ("https://urldefense.com/v3/__https://acme.com/a__;!!Abc!x$", "https://acme.com/a"),
    ("https://eur01.safelinks.protection.outlook.com/?url=https%3A%2F%2Facme.com%2Fa&data=x", "https://acme.com/a"),
    ("https://lm.facebook.com/l.php?u=https%3A%2F%2Facme.com%2Fa&h=x", "https://acme.com/a"),
    ("https://www.linkedin.com/safety/go?url=https%3A%2F%2Facme.com&trk=x", "https://acme.com/"),
    ("https://out.reddit.com/t3_x?url=https%3A%2F%2Facme.com%2F&token=y", "https://acme.com/"),
    ("https://slack-redir.net/link?url=https%3A%2F%2Facme.com%2Fa", "https://acme.com/a"),
    ("https://link.wtturl.cn/?target=https%3A%2F%2Facme.com%2Fa&scene=im", "https://acme.com/a"),
    ("https://so.toutiao.com/search/jump?url=https%3A%2F%2Facme.com%2Fa&aid=1", "https://acme.com/a"),
    ("https://www.jianshu.com/go-wild?ac=2&url=https%3A%2F%2Facme.com", "https://acme.com/"),
    ("https://link.csdn.net/?target=https%3A%2F%2Facme.com%2Fa%3Futm_source%3Dcsdn", "https://acme.com/a"),
    ("https://docs.qq.com/scenario/link.html?url=https%3A%2F%2Facme.com", "https://acme.com/"),
    ("https://www.douban.com/link2/?url=https%3A%2F%2Facme.com%2Fa", "https://acme.com/a"),
    (
        "https://duckduckgo.com/l/?kh=-1&uddg=https%3A%2F%2Fl.facebook.com%2Fl.php%3Fu%3Dhttps%253A%252F%252Facme.com",
        "https://acme.com/",
    ),
    ("https://link.zhihu.com/?target=mailto%3Aa%40acme.com", "https://link.zhihu.com/?target=mailto%3Aa%40acme.com"),
    ("https://acme.com/url?q=https://b.com/", "https://acme.com/url?q=https://b.com/"),
    ("https://x-translate.goog/a", "https://x-translate.goog/a"),
]


@pytest.mark.parametrize(("raw", "expected"), [*SPELLINGS, *WRAPPED])
def test_one_form_for_every_spelling_that_answers_use(raw: str, expected: str) -> None:
    url = normalize_url(raw)
    assert url is not None
    assert url.normalized == expected
    assert normalize_url(expected) == url


@pytest.mark.parametrize(
    "raw",
    [
        "https://vertexaisearch.cloud.google.com/grounding-api-redirect/AUZI=",
        "https://www.baidu.com/link?url=abc&wd=",
        "https://www.sogou.com/link?url=hedJ",
        "https://www.so.com/link?m=x",
        "https://t.co/AbC",
        "https://bit.ly/3x",
        "https://news.google.com/rss/articles/CBMi?oc=5",
    ],
)
def test_a_redirect_that_hides_its_target_is_known_as_such(raw: str) -> None:
    url = normalize_url(raw)
    assert url is not None
    assert url.is_opaque


@pytest.mark.parametrize(
    "raw",
    [
        "collections://abc123",
        "https://douyin_spu_knowledge?id=1",
        "https://***.com/a",
        "https://xxx/",
        "tel:+123",
        "blob:https://acme.com/1",
        "view-source:https://acme.com",
        "chrome://settings",
        "#section",
        "/docs/start",
        "./a.html",
        "?q=1",
        "https://[fe80::1]/",
        "https://[::1",
        "https://acme.com:0x50/",
        "https://#/a",
        "https://?a",
        "https://.",
        "turn0search1",
        "file.pdf page 3",
    ],
)
def test_what_is_no_page_of_the_web_is_left_out(raw: str) -> None:
    assert normalize_url(raw) is None


@pytest.mark.parametrize(
    ("url", "domain", "owner"),
    [
        ("https://acme.com/a", "acme.com", "own"),
        ("https://www.acme.com/a", "acme.com", "own"),
        ("https://blog.eu.acme.com/a", "acme.com", "own"),
        ("https://acme.com.cn/a", "acme.com.cn", "other"),
        ("https://notacme.com/", "notacme.com", "other"),
        ("https://acme.com.evil.io/", "evil.io", "other"),
        ("https://acme-shop.com/", "acme-shop.com", "other"),
        ("https://acme.co/", "acme.co", "other"),
        ("https://xn--cme-5cd.com/", "xn--cme-5cd.com", "other"),
        ("https://acme.com@evil.io/", "evil.io", "other"),
        ("https://evil.io/acme.com", "evil.io", "other"),
        ("https://evil.io/?u=https://acme.com", "evil.io", "other"),
        ("https://evil.io#acme.com", "evil.io", "other"),
        ("https://evil.io\\@acme.com/", "evil.io", "other"),
        ("https://acme.github.io/", "acme.github.io", "other"),
        ("https://borealis.co.uk/", "borealis.co.uk", "competitor"),
        ("https://shop.borealis.co.uk/", "borealis.co.uk", "competitor"),
        ("https://myborealis.co.uk/", "myborealis.co.uk", "other"),
        ("https://other.co.uk/", "other.co.uk", "other"),
        ("https://borealis.myshopify.com/", "borealis.myshopify.com", "competitor"),
        ("https://acme.myshopify.com/", "acme.myshopify.com", "other"),
        ("https://www.google.com/url?q=https://docs.acme.com/", "acme.com", "own"),
        ("https://t.co/x", None, "other"),
    ],
)
def test_subdomains_are_the_brands_and_lookalikes_are_nobodys(url: str, domain: str | None, owner: Owner) -> None:
    (cited,) = parse_answer(
        "text",
        question=None,
        names=[],
        own_domains=["acme.com"],
        competitor_domains=["https://borealis.co.uk/", "borealis.myshopify.com"],
        citation_urls=[(url, None, None)],
    ).citations
    assert (cited.domain, cited.owner) == (domain, owner)


SITES = st.sampled_from(
    [
        "acme.com",
        "www-acme-com.translate.goog",
        "r.jina.ai",
        "urldefense.com/v3/__https:",
        "google.com/amp/s",
        "t.co",
        "r.search.yahoo.com/RU=https%3a",
        "mp.weixin.qq.com",
        "x.cdn.ampproject.org/c/s",
        "disq.us/url",
        "[2606:4700::1]",
    ]
)
PIECES = st.sampled_from(
    [
        "https://",
        "/",
        "//",
        "?",
        "&",
        "=",
        "#",
        "#!",
        "utm_x=1",
        "%2F",
        "%25",
        "%",
        ".",
        "..",
        "__;",
        "RU=",
        "a",
        "acme.com",
        "www.",
        "_x_tr_sl=1",
        "u=",
        "url=",
        "@",
        ":",
        ":443",
        "\\",
        "é",
        "\t",
        " ",
    ]
)


@settings(max_examples=200)
@given(SITES, st.lists(PIECES, max_size=14).map("".join))
@example("www-www-acme-com.translate.goog", "")
@example("translate.goog", "/a")
@example("r.jina.ai", "/https://r.jina.ai/https://acme.com/")
@example("google.com/amp/s", "/google.com/amp/s/acme.com")
@example("urldefense.com/v3/__https:", "//acme.com__;")
def test_normalising_twice_changes_nothing(site: str, rest: str) -> None:
    url = normalize_url(f"https://{site}{rest}")
    if url is not None:
        assert normalize_url(url.normalized) == url


def test_long_urls_are_normalised_without_being_remembered() -> None:
    long = "https://acme.com/?utm_source=x&q=" + "a" * 1000
    url = normalize_url(long)
    assert url is not None
    assert url.normalized == "https://acme.com/?q=" + "a" * 1000

"""URL rules, one row each (3-results §3.3)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from domain.parsing.domains import Owner
from domain.parsing.urls import MAX_URL_LENGTH, normalize_url, owner_of

CANONICAL = [
    ("http://acme.com", "https://acme.com/"),
    ("https://acme.com/", "https://acme.com/"),
    ("HTTPS://ACME.COM/Path", "https://acme.com/Path"),
    ("https://www.acme.com/a", "https://acme.com/a"),
    ("https://www.www.acme.com/a", "https://acme.com/a"),
    ("https://www.com/", "https://www.com/"),
    ("https://www.co.uk/", "https://www.co.uk/"),
    ("https://www2.acme.com/", "https://www2.acme.com/"),
    ("http://acme.com:80/a", "https://acme.com/a"),
    ("https://acme.com:443/a", "https://acme.com/a"),
    ("http://acme.com:443/a", "https://acme.com/a"),
    ("http://acme.com:8080/a", "https://acme.com:8080/a"),
    ("https://acme.com./a", "https://acme.com/a"),
    ("https://user:secret@acme.com/a", "https://acme.com/a"),
    ("https://acme.com/a/", "https://acme.com/a"),
    ("https://acme.com/a///", "https://acme.com/a"),
    ("https://acme.com//", "https://acme.com/"),
    ("https://acme.com/a//b", "https://acme.com/a//b"),
    ("https://acme.com/a/../b/./c", "https://acme.com/b/c"),
    ("https://acme.com\\a", "https://acme.com/a"),
    ("https://acme.com/a#part", "https://acme.com/a"),
    ("https://acme.com/a#:~:text=hello", "https://acme.com/a"),
    ("https://acme.com/#/docs/", "https://acme.com/#/docs"),
    ("https://acme.com/#!docs", "https://acme.com/#!docs"),
    ("https://acme.com/#!/", "https://acme.com/"),
    ("https://acme.com/#/route?utm_source=x", "https://acme.com/#/route"),
    ("https://acme.com/#/route/?utm_source=x&id=7&gclid=y", "https://acme.com/#/route?id=7"),
    ("https://acme.com/?utm_source=x#/a?spm=y", "https://acme.com/#/a"),
    ("https://acme.com/#!docs?utm_medium=x", "https://acme.com/#!docs"),
    ("https://acme.com/#/?utm_source=x", "https://acme.com/"),
    ("https://acme.com/#/?id=7", "https://acme.com/#/?id=7"),
    ("https://acme.com/#!?id=7", "https://acme.com/#!/?id=7"),
    ("https://acme.com/#/a?utm_source=x:~:text=y", "https://acme.com/#/a"),
    ("https://acme.com/#/a?", "https://acme.com/#/a"),
    ("https://x.com/#/a?s=20", "https://x.com/#/a"),
    ("https://acme.com/?", "https://acme.com/"),
    ("https://acme.com/?b=2&a=1", "https://acme.com/?b=2&a=1"),
    ("https://acme.com/?a=1&&a=2&", "https://acme.com/?a=1&a=2"),
    ("https://acme.com/?utm_source=chatgpt.com", "https://acme.com/"),
    ("https://acme.com/?UTM_Medium=x&id=7&gclid=y", "https://acme.com/?id=7"),
    ("https://acme.com/?fbclid=x&msclkid=y&spm=a.b.c&srsltid=z", "https://acme.com/"),
    ("https://acme.com/?utm%5Fsource=x&id=7", "https://acme.com/?id=7"),
    ("https://acme.com/?spmx=1", "https://acme.com/?spmx=1"),
    ("https://youtube.com/watch?v=x&si=y&feature=z", "https://youtube.com/watch?v=x"),
    ("https://acme.com/?si=y", "https://acme.com/?si=y"),
    ("https://x.com/a/status/1?s=20&t=q", "https://x.com/a/status/1"),
    ("https://acme.com/100%25", "https://acme.com/100%25"),
    ("https://acme.com/%2525", "https://acme.com/%2525"),
    ("https://acme.com/%e4%b8%ad", "https://acme.com/%E4%B8%AD"),
    ("https://acme.com/中?q=文", "https://acme.com/%E4%B8%AD?q=%E6%96%87"),
    ("https://acme.com/%zz", "https://acme.com/%zz"),
    ("https://acme.com/a b", "https://acme.com/a%20b"),
    (" \n https://acme.com/a\u3000", "https://acme.com/a"),
    ("https://ac\tme.com/\na", "https://acme.com/a"),
    ("https://例え.jp/", "https://xn--r8jz45g.jp/"),
    ("https://BÜCHER.de/", "https://xn--bcher-kva.de/"),
    ("https://ａｃｍｅ。com/", "https://acme.com/"),
    ("//acme.com/a", "https://acme.com/a"),
    ("acme.com", "https://acme.com/"),
    ("www.acme.com/a?b=1", "https://acme.com/a?b=1"),
    ("acme.com:8080/a", "https://acme.com:8080/a"),
    ("http://192.0.2.7/a", "https://192.0.2.7/a"),
    ("https://a_b.acme.com/", "https://a_b.acme.com/"),
]

WRAPPED = [
    ("https://www.google.com/url?sa=t&q=https%3A%2F%2Fwww.acme.com%2Fa%2F", "https://acme.com/a"),
    ("https://google.com.hk/url?url=https://acme.com/a", "https://acme.com/a"),
    ("https://www.google.com/amp/s/www.acme.com/a", "https://acme.com/a"),
    ("https://acme-com.cdn.ampproject.org/c/s/acme.com/a", "https://acme.com/a"),
    ("https://www.bing.com/ck/a?!&&u=a1aHR0cHM6Ly9hY21lLmNvbS94&ntb=1", "https://acme.com/x"),
    ("https://duckduckgo.com/l/?uddg=https%3A%2F%2Facme.com%2F&rut=1", "https://acme.com/"),
    ("https://l.facebook.com/l.php?u=https%3A%2F%2Facme.com%3Ffbclid%3D1", "https://acme.com/"),
    ("https://l.instagram.com/?u=https://acme.com/a", "https://acme.com/a"),
    ("https://www.youtube.com/redirect?q=https%3A%2F%2Facme.com", "https://acme.com/"),
    ("https://link.zhihu.com/?target=https%3A//acme.com/a%2525", "https://acme.com/a%25"),
    ("https://link.juejin.cn/?target=https%3A%2F%2Facme.com", "https://acme.com/"),
    ("https://gitee.com/link?target=https%3A%2F%2Facme.com", "https://acme.com/"),
    (
        "https://www.google.com/url?q=https%3A%2F%2Flink.zhihu.com%2F%3Ftarget%3Dhttps%253A%252F%252Facme.com",
        "https://acme.com/",
    ),
    (
        "https://google.com/url?q=javascript:alert(1)",
        "https://google.com/url?q=javascript:alert(1)",
    ),
    ("https://google.com/url?q=acme", "https://google.com/url?q=acme"),
    (
        "https://google.com.evil.net/url?q=https://a.com",
        "https://google.com.evil.net/url?q=https://a.com",
    ),
    ("https://mybing.com/ck/a?u=https://a.com", "https://mybing.com/ck/a?u=https://a.com"),
    ("https://bing.com/ck/a?u=a1!!!", "https://bing.com/ck/a?u=a1!!!"),
    (
        "https://vertexaisearch.cloud.google.com/grounding-api-redirect/AbC=",
        "https://vertexaisearch.cloud.google.com/grounding-api-redirect/AbC=",
    ),
    ("https://www.sogou.com/link?url=hedJjaC291", "https://sogou.com/link?url=hedJjaC291"),
]


@pytest.mark.parametrize(("raw", "expected"), [*CANONICAL, *WRAPPED])
def test_one_form_for_every_spelling(raw: str, expected: str) -> None:
    url = normalize_url(raw)
    assert url is not None
    assert url.normalized == expected
    assert normalize_url(expected) == url


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "   ",
        "collections://abc",
        "javascript:alert(1)",
        "mailto:a@acme.com",
        "data:text/html,x",
        "file:///etc/passwd",
        "ftp://acme.com/a",
        "about:blank",
        "https://localhost/a",
        "localhost:8080",
        "https://intranet/a",
        "https://[::1]/",
        "https://",
        "https://acme..com/",
        "https://.acme.com/",
        "https://acme.com:99999/",
        "https://acme.com:port/",
        "https://ac me.com/",
        "https://acme.com%00/",
        "https://acme.com\x00.evil.net/",
        "https://300.1.2.3/",
        "https://hicloud.com(grsutil",
        "hicloud.com(grsutil",
        "https://acme.com,foo.com/",
        "https://acme.com'/",
        "https://a$b.com/",
        "http://\udc00.com/",
        "hello world.com",
        "node.js",
        "见下文",
        "https://acme.com/" + "a" * MAX_URL_LENGTH,
        "https://acme.com/" + "中" * (MAX_URL_LENGTH // 4),
        "https://" + "a." * 130 + "com/",
    ],
)
def test_what_names_no_web_page_is_refused(raw: str) -> None:
    assert normalize_url(raw) is None


def test_a_long_url_is_kept_whole() -> None:
    url = normalize_url("https://acme.com/?q=" + "a" * 4000)
    assert url is not None
    assert len(url.normalized) == 4020


@pytest.mark.parametrize(
    ("raw", "host", "domain"),
    [
        ("https://a.b.acme.co.uk/", "a.b.acme.co.uk", "acme.co.uk"),
        ("https://news.acme.com.cn/", "news.acme.com.cn", "acme.com.cn"),
        ("https://ann.github.io/x", "ann.github.io", "ann.github.io"),
        ("https://github.io/", "github.io", "github.io"),
        ("https://mp.weixin.qq.com/s/x", "mp.weixin.qq.com", "qq.com"),
        ("https://a.例子.中国/", "a.xn--fsqu00a.xn--fiqs8s", "xn--fsqu00a.xn--fiqs8s"),
        ("https://a.b.corp/", "a.b.corp", "b.corp"),
        ("https://192.0.2.7/", "192.0.2.7", "192.0.2.7"),
    ],
)
def test_host_and_registrable_domain(raw: str, host: str, domain: str) -> None:
    url = normalize_url(raw)
    assert url is not None
    assert (url.host, url.domain) == (host, domain)


OWN = ("acme.com", "https://www.acme.cn/", "*.acme.io", "例え.jp", "acme.github.io", "com", "")
COMPETITORS = ("foo.com", "shop.acme.com", "github.io", "weibo.com/foo")


@pytest.mark.parametrize(
    ("host", "owner"),
    [
        ("acme.com", "own"),
        ("ACME.com", "own"),
        ("www.acme.com", "own"),
        ("blog.acme.com", "own"),
        ("a.b.acme.com", "own"),
        ("acme.cn", "own"),
        ("x.acme.io", "own"),
        ("xn--r8jz45g.jp", "own"),
        ("acme.github.io", "own"),
        ("notacme.com", "other"),
        ("acme.com.evil.net", "other"),
        ("acme-com.net", "other"),
        ("acme.co", "other"),
        ("com", "other"),
        ("", "other"),
        ("foo.com", "competitor"),
        ("www.foo.com", "competitor"),
        ("shop.acme.com", "competitor"),
        ("other.github.io", "competitor"),
        ("weibo.com", "other"),
    ],
)
def test_subdomains_are_the_brands_and_lookalikes_are_nobodys(host: str, owner: Owner) -> None:
    assert owner_of(host, OWN, COMPETITORS) == owner


def test_own_wins_a_tie() -> None:
    assert owner_of("acme.com", ["acme.com"], ["acme.com"]) == "own"


SCHEMES = st.sampled_from(["", "http://", "https://", "//", "HTTP:", "https://www."])
HOSTS = st.sampled_from(["acme.com", "www.acme.co.uk", "google.com/url", "bing.com/ck/a", "例え.jp"])
PIECES = ["utm_source=x", "#/", "#!", ":~:", *"/?#!&=%:@.a1uqZ25中 \\\t~[](_"]
REST = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
TARGETS = st.sampled_from(["", "?q=", "?u=a1", "?url=https%3A%2F%2Fwww.acme.com/", "#!/", "?u="])


@given(st.one_of(st.text(), st.builds("{}{}{}{}".format, SCHEMES, HOSTS, TARGETS, REST)))
@example("https://google.com/url/?q=https://acme.com")
def test_normalisation_is_total_and_idempotent(raw: str) -> None:
    url = normalize_url(raw)
    if url is not None:
        assert normalize_url(url.normalized) == url
        assert url.normalized.startswith(f"https://{url.host}")
        assert url.host == url.domain or url.host.endswith("." + url.domain)


LABELS = st.sampled_from(
    ["acme", "www", "a--b", "xn--fiq228c", "xn--", "-a", "a-", "1", "0x7f", "A", "a_b", "co", "com"]
)
WRITTEN = st.text(alphabet="aZ09-._~!$&'()*+,;=:@%2eE/?|^ é\\", max_size=20).map(str.strip)


@given(
    st.sampled_from(["http", "https"]),
    st.lists(LABELS, min_size=2, max_size=4),
    st.sampled_from(["", "/", "?"]),
    WRITTEN,
)
@example("http", ["acme", "com"], "/", "a/%2e%2E/b")
def test_a_fragment_that_is_no_route_changes_nothing(scheme: str, labels: list[str], mark: str, rest: str) -> None:
    raw = f"{scheme}://{'.'.join(labels)}{mark}{rest}"
    assert normalize_url(raw) == normalize_url(f"{raw}#part")  # which the parser has to take off


def test_deeply_nested_wrappers_are_unwrapped_in_one_go() -> None:
    raw = "https://google.com/url?q=" * 200 + "https://acme.com/"
    url = normalize_url(raw)
    assert url is not None
    assert url.normalized == "https://acme.com/"

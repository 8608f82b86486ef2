"""What a login made in a window changes in the file that the driver reads."""

from desktop.browser.login import merged


def test_a_new_login_leaves_the_others_as_they_are_kept() -> None:
    def cookie(name: str, value: str) -> dict[str, str]:
        return {"name": name, "domain": "a.example", "path": "/", "value": value}

    loaded = {"cookies": [cookie("a", "old"), cookie("b", "old")], "origins": []}
    kept = {"cookies": [cookie("a", "renewed"), cookie("b", "old")], "origins": []}
    now = {"cookies": [cookie("a", "old"), cookie("b", "new"), cookie("c", "new")], "origins": []}
    values = {item["name"]: item["value"] for item in merged(kept, loaded, now)["cookies"]}
    assert values == {"a": "renewed", "b": "new", "c": "new"}

"""What random steps meet too seldom: desktops busy with scheduled work when somebody clicks.

Each scene is a list of moves. The prologue plays its own in order, so that a walk has seen every end of an order to
stop; later ones are played with random steps between theirs.
"""

from functools import partial

from tests.model import acts, giving_way, people, server
from tests.model.state import FUSES, SETTINGS, Desk, Model, Move

Scene = list[tuple[str, Move]]

# Few enough for one click to fill the minute.
SMALL_FUSE = 6


def prologue(model: Model) -> Scene:
    """Every kind of end, on desktops that have nothing else to do."""
    small, _, large, other, _ = model.desks
    return [*all_give_way(large), *one_inherits(small), *floor(other), *together(model)]


def all_give_way(desk: Desk) -> Scene:
    """Policy `all`: three victims, of which one stops, one finishes first, and one does neither."""
    return [
        ("policy all", partial(acts.set_to, "preempt_policy", "all")),
        ("alone there", partial(acts.alone_there, desk)),
        ("busy", partial(acts.busy, desk)),
        ("click", partial(acts.click_on, desk)),
        ("stale", partial(acts.acknowledge, desk, -1)),
        ("stop", partial(acts.acknowledge, desk, 0)),
        ("again", partial(acts.acknowledge_again, desk)),
        ("finish first", partial(acts.finish_first, desk)),
        ("hard timeout", server.hard_timeout),
        ("late", partial(acts.acknowledge_late, desk)),
        ("cancel all", partial(acts.cancel_all, desk)),
    ]


def one_inherits(desk: Desk) -> Scene:
    """Policy `needed`: two requests want one slot, and both are cancelled."""
    return [
        ("policy needed", partial(acts.set_to, "preempt_policy", "needed")),
        ("alone there", partial(acts.alone_there, desk)),
        ("busy", partial(acts.busy, desk)),
        ("click", partial(acts.click_on, desk)),
        ("click beside", partial(acts.click_on, desk)),
        ("round", partial(acts.round_of, 0)),
        ("cancel first", partial(acts.cancel_first, desk)),
        ("stop waiting", partial(acts.stop_waiting, desk)),
        ("busy", partial(acts.busy, desk)),
        ("click", partial(acts.click_on, desk)),
        ("cancel first", partial(acts.cancel_first, desk)),
        ("cancel first", partial(acts.cancel_first, desk)),
    ]


def floor(desk: Desk) -> Scene:
    """More high work than a minute takes, on one desktop, while scheduled work waits for the others."""
    return [
        ("setting", partial(acts.set_to, "cluster_per_minute", SMALL_FUSE)),
        ("small fuse", partial(acts.set_fuse, SMALL_FUSE)),
        ("floor", partial(acts.set_to, "normal_floor", 0.5)),
        ("everybody", acts.everybody),
        ("next batch", people.next_batch),
        ("next batch", people.next_batch),
        ("click on everything", partial(acts.click_on_everything, desk)),
        ("minute", server.minute),
        ("round", partial(acts.round_of, 0)),
        ("cancel all", partial(acts.cancel_all, desk)),
        ("fuse", partial(acts.set_fuse, FUSES["cluster_per_minute"])),
        ("setting", partial(acts.set_to, "cluster_per_minute", SETTINGS["cluster_per_minute"])),
    ]


def together(model: Model) -> Scene:
    """Everybody is there for the random part."""
    return [("everybody", acts.everybody)]


def any_scene(model: Model) -> Scene:
    """A busy desktop, clicks on it, and whatever comes next."""
    desk = model.desk(connected=False)
    assert desk is not None
    again: Scene = [("click beside", partial(acts.click_on, desk))] if model.chance(0.4) else []
    after = [(name, MOVE_OF[name]) for name in model.dice.choices(list(MOVE_OF), k=model.dice.randint(1, 4))]
    return [
        ("policy", partial(acts.set_to, "preempt_policy", model.dice.choice(["all", "needed"]))),
        ("room", partial(acts.make_ready, desk)),
        ("busy", partial(acts.busy, desk)),
        ("click", partial(acts.click_on, desk)),
        *again,
        *after,
    ]


# What may come after a click.
MOVE_OF: dict[str, Move] = {
    "round": server.dispatch,
    "give way": giving_way.give_way,
    "hard timeout": server.hard_timeout,
    "cancel request": people.cancel_request,
    "finish first": acts.finish_any,
}

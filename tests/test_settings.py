import pytest

from pruner.errors import ConfigError
from pruner.settings import check_types, positive, whole


class Typed:
    def __init__(
        self, *, size: int = 1, rate: "float | None" = None, name: str = "", on: bool = False, other=None
    ):
        pass


@pytest.mark.parametrize(
    "settings",
    [
        {"size": 3},
        {"rate": 0.5},
        {"rate": 2},
        {"rate": None},
        {"name": "x"},
        {"on": True},
        {"other": object()},
        {"unknown": 1},
    ],
)
def test_values_of_the_annotated_type_pass(settings):
    check_types(Typed, settings)


@pytest.mark.parametrize(
    "settings",
    [{"size": "3"}, {"size": 1.5}, {"size": True}, {"size": None}, {"rate": "x"}, {"name": 3}, {"on": 1}],
)
def test_others_are_refused_by_name(settings):
    ((name, value),) = settings.items()
    with pytest.raises(ConfigError, match=f"{name}={value} is not accepted by Typed"):
        check_types(Typed, settings)


def test_ranges():
    whole(1, a=1, b=10**30)
    positive(a=1, b=1e-9)
    for bad in (0, -1, 1.0, "1", True, None):
        with pytest.raises(ConfigError, match="b="):
            whole(1, a=1, b=bad)
    for bad in (0, -1.0, float("nan"), float("inf"), "1", True):
        with pytest.raises(ConfigError, match="b="):
            positive(a=1, b=bad)

"""Pictures of the plants, drawn with pygame."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nopg.envs._cart_pole import CartPole
from nopg.envs._environment import Environment
from nopg.envs._lqr import LQR
from nopg.envs._mountain_car import MountainCar
from nopg.envs._pendulum import Pendulum
from nopg.envs._two_tanks import TwoTanks
from nopg.errors import ArgumentError, MissingExtraError

if TYPE_CHECKING:
    import pygame

WIDTH, HEIGHT = 600, 400  # pixels of a frame
SCALE = 3  # drawn at this multiple and smoothed, for clean edges

Color = tuple[int, int, int]
PAPER, PANEL, INK, FAINT = (250, 249, 246), (241, 241, 239), (45, 52, 64), (205, 207, 211)
METAL, WOOD, SIGNAL, GOAL = (84, 110, 140), (201, 122, 64), (196, 60, 60), (74, 150, 98)
GROUND, WATER = (226, 229, 222), (134, 178, 214)

Point = tuple[float, float]


def require_pygame() -> Any:
    """Return pygame, or raise the error that names its extra."""
    try:
        import pygame
    except ImportError:
        raise MissingExtraError("pygame", "render") from None
    return pygame


class Canvas:
    """A picture in the units of the task: x to the right, y upwards, its middle at `center`."""

    def __init__(self, *, width: float, center: Point = (0.0, 0.0)) -> None:
        self._pygame = require_pygame()
        self.surface = self._pygame.Surface((WIDTH * SCALE, HEIGHT * SCALE), depth=32)
        self.surface.fill(PAPER)
        self.width, self.height, self.center = width, width * HEIGHT / WIDTH, center
        self.pixel = width / WIDTH  # of the finished frame, in the units of the task

    def polygon(self, points: Iterable[Point], color: Color) -> None:
        """Fill the area between the points."""
        self._pygame.draw.polygon(self.surface, color, [self._place(point) for point in points])

    def circle(self, center: Point, radius: float, color: Color) -> None:
        """Fill a circle."""
        self._pygame.draw.circle(self.surface, color, self._place(center), radius / self.pixel * SCALE)

    def stroke(self, points: Sequence[Point], width: float, color: Color) -> None:
        """Draw a line through the points, with round ends and joints."""
        for start, end in pairwise(points):
            length = math.dist(start, end)
            if length > 0:
                dx = width / 2 * (start[1] - end[1]) / length
                dy = width / 2 * (end[0] - start[0]) / length
                one, other = _moved([start, end], (dx, dy)), _moved([end, start], (-dx, -dy))
                self.polygon([*one, *other], color)
        for point in points:
            self.circle(point, width / 2, color)

    def arrow_head(self, tip: Point, angle: float, size: float) -> None:
        """Draw a triangle about the tip; at angle 0 it points upwards."""
        corners = [(-size, -0.5 * size), (size, -0.5 * size), (0.0, 1.2 * size)]
        self.polygon(_moved([_turned(corner, angle) for corner in corners], tip), SIGNAL)

    def arrow(self, start: Point, share: float, length: float) -> None:
        """Draw a horizontal arrow whose length is proportional to an action."""
        if abs(share) < 0.01:
            return
        end = start[0] + share * length, start[1]
        self.stroke([start, end], 3 * self.pixel, SIGNAL)
        self.arrow_head(end, math.copysign(math.pi / 2, -share), 7 * self.pixel)

    def finished(self) -> "pygame.Surface":
        """Return the frame at its final size."""
        smooth: pygame.Surface = self._pygame.transform.smoothscale(self.surface, (WIDTH, HEIGHT))
        return smooth

    def _place(self, point: Point) -> Point:
        # Bounded: a state far outside the picture must not overflow pygame's integers.
        x = _bounded((point[0] - self.center[0]) / self.width + 0.5, 10.0)
        y = _bounded(0.5 - (point[1] - self.center[1]) / self.height, 10.0)
        return x * WIDTH * SCALE, y * HEIGHT * SCALE


Drawing = Callable[[Any, list[float], list[float] | None], Canvas]
"""From an environment, a state and the applied action (None after a reset) to a picture."""


def _draw_pendulum(pendulum: Pendulum, state: list[float], action: list[float] | None) -> Canvas:
    """Draw the rod, and the torque as an arc, counter-clockwise for a positive one."""
    length = pendulum.length
    canvas = Canvas(width=4.2 * length)
    canvas.circle((0.0, 0.0), 1.16 * length, PANEL)
    canvas.stroke([(0.0, 0.0), _turned((0.0, length), state[0])], 0.15 * length, WOOD)
    canvas.circle((0.0, 0.0), 0.045 * length, INK)

    share = 0.0 if action is None else action[0] / pendulum.max_torque
    if abs(share) >= 0.02:
        sweep, radius = share * 0.75 * math.pi, 0.28 * length
        arc = [_turned((0.0, radius), sweep * k / 40 - math.pi / 2) for k in range(41)]
        canvas.stroke(arc, 0.12 * radius, SIGNAL)
        canvas.arrow_head(arc[-1], sweep - math.pi / 2 + math.copysign(math.pi / 2, share), 0.22 * radius)
    return canvas


def _draw_cart_pole(cart_pole: CartPole, state: list[float], action: list[float] | None) -> Canvas:
    """Draw the track with the limits of the task, the cart and the pole, and the voltage as an arrow."""
    x, angle = state[0], state[1]
    length, track, limit = 2 * cart_pole.pole_length, cart_pole.track_limit, cart_pole.position_limit
    rail = -0.06
    canvas = Canvas(width=max(1.1, 2.6 * length), center=(0.0, 0.32 * length))

    canvas.stroke([(-track, rail), (track, rail)], 0.008, INK)
    for side in (-1, 1):
        canvas.stroke([(side * track, rail), (side * track, rail + 0.05)], 0.008, INK)
        canvas.stroke([(side * limit, rail - 0.012), (side * limit, rail - 0.032)], 0.005, SIGNAL)
        edge = _turned((0.0, 1.1 * length), side * cart_pole.angle_limit)
        canvas.stroke(_moved([(0.0, 0.0), edge], (x, 0.0)), 0.0025, FAINT)

    for wheel in (-0.036, 0.036):
        canvas.circle((x + wheel, rail + 0.016), 0.014, INK)
    canvas.polygon(_box((x, -0.012), 0.06, 0.025), METAL)
    canvas.stroke(_moved([(0.0, 0.0), _turned((0.0, length), angle)], (x, 0.0)), 0.018, WOOD)
    canvas.circle((x, 0.0), 0.006, INK)
    if action is not None:
        canvas.arrow((x, rail - 0.055), action[0] / cart_pole.max_voltage, 0.3)
    return canvas


def _draw_mountain_car(car: MountainCar, state: list[float], action: list[float] | None) -> Canvas:
    """Draw the road with wall and goal, the car on it, and the throttle as an arrow."""
    left, right, goal = car.min_position, car.max_position, car.goal_position
    span = right - left
    canvas = Canvas(width=1.08 * span, center=((left + right) / 2, 0.12))
    ends = left - 0.1 * span, right + 0.1 * span

    road = [(x, _height(x)) for x in np.linspace(*ends, 200).tolist()]
    canvas.polygon([*road, (ends[1], -2.0), (ends[0], -2.0)], GROUND)
    canvas.stroke(road, 0.008, INK)
    canvas.stroke([(left, _height(left)), (left, _height(left) + 0.12)], 0.014, INK)
    top = _height(goal) + 0.17
    canvas.stroke([(goal, _height(goal)), (goal, top)], 0.007, INK)
    canvas.polygon([(goal, top), (goal + 0.1, top - 0.03), (goal, top - 0.06)], GOAL)

    x = state[0]
    ground, slope = (x, _height(x)), math.atan(1.35 * math.cos(3 * x))

    def on_road(points: Iterable[Point]) -> list[Point]:
        return _moved([_turned(point, slope) for point in points], ground)

    canvas.polygon(on_road(_box((0.0, 0.077), 0.085, 0.03)), METAL)
    canvas.polygon(on_road(_box((-0.008, 0.125), 0.045, 0.025)), METAL)
    for wheel in on_road([(-0.05, 0.034), (0.05, 0.034)]):
        canvas.circle(wheel, 0.03, INK)
        canvas.circle(wheel, 0.012, FAINT)
    if action is not None:
        canvas.arrow(on_road([(0.0, 0.25)])[0], action[0], 0.2)
    return canvas


def _draw_lqr(lqr: LQR, state: list[float], action: list[float] | None) -> Canvas:
    """Draw the first two coordinates in the collectors' box, with the action as an arrow."""
    bound = lqr.state_bound
    canvas = Canvas(width=3.3 * bound)
    x, y = (*state, 0.0)[:2]

    canvas.polygon(_box((0.0, 0.0), bound, bound), PANEL)
    for k in range(-4, 5):
        at, width = k * bound / 4, (2.2 if k == 0 else 1.0) * canvas.pixel
        canvas.stroke([(at, -bound), (at, bound)], width, FAINT)
        canvas.stroke([(-bound, at), (bound, at)], width, FAINT)
    canvas.circle((0.0, 0.0), 5 * canvas.pixel, GOAL)

    if action is not None:
        u, v = (*action, 0.0)[:2]
        end = x + bound / lqr.action_bound * u, y + bound / lqr.action_bound * v
        canvas.stroke([(x, y), end], 3 * canvas.pixel, SIGNAL)
        if math.dist((x, y), end) > 8 * canvas.pixel:
            canvas.arrow_head(end, math.atan2(v, u) - math.pi / 2, 8 * canvas.pixel)
    # A state outside the picture is shown hollow at its edge.
    shown = _bounded(x, 0.485 * canvas.width), _bounded(y, 0.478 * canvas.height)
    canvas.circle(shown, 9 * canvas.pixel, METAL)
    if shown != (x, y):
        canvas.circle(shown, 6 * canvas.pixel, PAPER)
    return canvas


def _draw_two_tanks(tanks: TwoTanks, state: list[float], action: list[float] | None) -> Canvas:
    """Draw both tanks with their water, the set point, and the flows with widths in proportion."""
    tall, gap = tanks.max_level, 0.35 * tanks.max_level
    canvas = Canvas(width=4.4 * tall, center=(0.0, tall + gap / 2))
    upper, lower, set_point = (min(max(level, 0.0), tall) for level in state)

    pumped = 0.0 if action is None else action[0] / tanks.max_voltage
    flows = (
        (2 * tall + 2 * gap, tall + gap, pumped),
        (tall + gap, 0.0, math.sqrt(upper / tall)),
        (0.0, -gap, math.sqrt(lower / tall)),
    )
    for top, bottom, share in flows:
        if share > 0:
            canvas.stroke([(0.0, top), (0.0, bottom)], 0.09 * tall * share, WATER)

    widest = max(tanks.upper_area, tanks.lower_area)
    for bottom, area, level in ((tall + gap, tanks.upper_area, upper), (0.0, tanks.lower_area, lower)):
        half = 0.55 * tall * math.sqrt(area / widest)
        canvas.polygon(_box((0.0, bottom + level / 2), half, level / 2), WATER)
        wall = [(-half, bottom + tall), (-half, bottom), (half, bottom), (half, bottom + tall)]
        canvas.stroke(wall, 3 * canvas.pixel, INK)
    canvas.stroke([(-0.75 * tall, set_point), (0.75 * tall, set_point)], 2 * canvas.pixel, GOAL)
    return canvas


def _bounded(value: float, bound: float) -> float:
    return min(max(value, -bound), bound)


def _turned(point: Point, angle: float) -> Point:
    """Turn a point counter-clockwise about the origin."""
    c, s = math.cos(angle), math.sin(angle)
    return c * point[0] - s * point[1], s * point[0] + c * point[1]


def _moved(points: Iterable[Point], by: Point) -> list[Point]:
    return [(x + by[0], y + by[1]) for x, y in points]


def _box(center: Point, half_width: float, half_height: float) -> list[Point]:
    corners = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
    return _moved([(a * half_width, b * half_height) for a, b in corners], center)


def _height(position: float) -> float:
    """Return the height of the road, whose slope is that of the dynamics."""
    return 0.45 * math.sin(3 * position)


_DRAWINGS: dict[type[Environment], Drawing] = {
    Pendulum: _draw_pendulum,
    CartPole: _draw_cart_pole,
    MountainCar: _draw_mountain_car,
    LQR: _draw_lqr,
    TwoTanks: _draw_two_tanks,
}


def drawing_of(environment: Environment) -> Drawing:
    """Return the function that draws the environment."""
    drawing = _DRAWINGS.get(type(environment))
    if drawing is None:
        known = ", ".join(kind.__name__ for kind in _DRAWINGS)
        raise ArgumentError(
            f"there is no drawing of {type(environment).__name__}, only of {known}; leave render_mode out"
        )
    return drawing


def frame(surface: "pygame.Surface") -> npt.NDArray[np.uint8]:
    """Return a finished picture as an array of shape (400, 600, 3)."""
    pixels: npt.NDArray[np.uint8] = require_pygame().surfarray.array3d(surface)
    return np.ascontiguousarray(pixels.transpose(1, 0, 2))

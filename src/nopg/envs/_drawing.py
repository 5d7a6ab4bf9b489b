"""Pictures of the environments' states, drawn with pygame."""

import math
from collections.abc import Callable, Iterable
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

__all__ = ["Canvas", "Drawing", "drawing_of", "frame", "require_pygame"]

WIDTH, HEIGHT = 600, 400  # pixels of a frame
SCALE = 3  # drawn this much larger, then smoothed down, for clean edges

Color = tuple[int, int, int]
PAPER, INK, FAINT = (250, 249, 246), (45, 52, 64), (205, 207, 211)
METAL, WOOD, SIGNAL, GOAL = (84, 110, 140), (201, 122, 64), (196, 60, 60), (74, 150, 98)
WATER = (134, 178, 214)

Point = tuple[float, float]


def require_pygame() -> Any:
    """Return pygame, or say which extra brings it."""
    try:
        import pygame
    except ImportError:
        raise MissingExtraError("pygame", "render") from None
    return pygame


class Canvas:
    """A sheet with the units of the task: x to the right, y upwards, its middle at `center`."""

    def __init__(self, *, width: float, center: Point = (0.0, 0.0)) -> None:
        self._pygame = require_pygame()
        self.surface = self._pygame.Surface((WIDTH * SCALE, HEIGHT * SCALE), depth=32)
        self.surface.fill(PAPER)
        self.width, self.height = width, width * HEIGHT / WIDTH
        self.center = center

    @property
    def pixel(self) -> float:
        """The size of one pixel of the finished frame, in the units of the task."""
        return self.width / WIDTH

    def polygon(self, points: Iterable[Point], color: Color) -> None:
        """Fill the area between the points."""
        self._pygame.draw.polygon(self.surface, color, [self._place(point) for point in points])

    def circle(self, center: Point, radius: float, color: Color) -> None:
        """Fill a circle."""
        self._pygame.draw.circle(self.surface, color, self._place(center), self._length(radius))

    def stroke(self, points: Iterable[Point], width: float, color: Color) -> None:
        """Draw a line through the points, with round ends and joints."""
        places = list(points)
        for start, end in pairwise(places):
            self._segment(start, end, width, color)
        for place in places:
            self.circle(place, width / 2, color)

    def finished(self) -> "pygame.Surface":
        """Return the frame at its final size."""
        smooth: pygame.Surface = self._pygame.transform.smoothscale(self.surface, (WIDTH, HEIGHT))
        return smooth

    def _segment(self, start: Point, end: Point, width: float, color: Color) -> None:
        length = math.dist(start, end)
        if length == 0:
            return
        across = width / 2 * (start[1] - end[1]) / length, width / 2 * (end[0] - start[0]) / length
        corners = [(x + side * across[0], y + side * across[1]) for x, y, side in _sides(start, end)]
        self.polygon(corners, color)

    def _place(self, point: Point) -> Point:
        # Bounded: a state far outside the picture must not overflow pygame's integers.
        x = (point[0] - self.center[0]) / self.width + 0.5
        y = 0.5 - (point[1] - self.center[1]) / self.height
        return (
            min(max(x, -10.0), 10.0) * WIDTH * SCALE,
            min(max(y, -10.0), 10.0) * HEIGHT * SCALE,
        )

    def _length(self, length: float) -> float:
        return length / self.pixel * SCALE


def _sides(start: Point, end: Point) -> list[tuple[float, float, int]]:
    return [(*start, 1), (*end, 1), (*end, -1), (*start, -1)]


Drawing = Callable[[Any, list[float], list[float] | None], Canvas]
"""From an environment, a state and the applied action (none after a reset) to a picture."""


def _draw_pendulum(pendulum: Pendulum, state: list[float], action: list[float] | None) -> Canvas:
    length = pendulum.parameters.length
    canvas = Canvas(width=4.2 * length)
    tip = _turned((0.0, length), state[0])

    canvas.circle((0.0, 0.0), 1.16 * length, (241, 241, 239))
    canvas.stroke([(0.0, 0.0), tip], 0.15 * length, WOOD)
    canvas.circle((0.0, 0.0), 0.045 * length, INK)
    if action is not None:
        _draw_torque(canvas, action[0] / pendulum.parameters.max_torque, 0.28 * length)
    return canvas


def _draw_torque(canvas: Canvas, share: float, radius: float) -> None:
    """Draw an arc about the pivot, counter-clockwise for a positive torque, as long as it is strong."""
    if abs(share) < 0.02:
        return
    sweep = share * 0.75 * math.pi
    # It starts at the right-hand side and turns with the torque.
    arc = [_turned((0.0, radius), sweep * k / 40 - math.pi / 2) for k in range(41)]
    canvas.stroke(arc, 0.12 * radius, SIGNAL)
    _draw_arrow_head(canvas, arc[-1], sweep - math.pi / 2 + math.copysign(math.pi / 2, share), 0.22 * radius)


def _draw_cart_pole(cart_pole: CartPole, state: list[float], action: list[float] | None) -> Canvas:
    p = cart_pole.parameters
    x, angle = state[0], state[1]
    length = 2 * p.pole.length
    canvas = Canvas(width=max(1.1, 2.6 * length), center=(0.0, 0.32 * length))
    cart, low = (0.06, 0.025), -0.06

    # The track with its ends, and the limits of the task.
    canvas.stroke([(-p.track_limit, low), (p.track_limit, low)], 0.008, INK)
    for side in (-1, 1):
        canvas.stroke([(side * p.track_limit, low), (side * p.track_limit, low + 0.05)], 0.008, INK)
        canvas.stroke(
            [(side * p.position_limit, low - 0.012), (side * p.position_limit, low - 0.032)], 0.005, SIGNAL
        )
        limit = _turned((0.0, 1.1 * length), side * p.angle_limit)
        canvas.stroke([(x, 0.0), (x + limit[0], limit[1])], 0.0025, FAINT)

    for wheel in (-0.6, 0.6):
        canvas.circle((x + wheel * cart[0], low + 0.016), 0.014, INK)
    canvas.polygon(_box((x, -0.012), *cart), METAL)
    tip = _turned((0.0, length), angle)
    canvas.stroke([(x, 0.0), (x + tip[0], tip[1])], 0.018, WOOD)
    canvas.circle((x, 0.0), 0.006, INK)

    if action is not None:
        _draw_push(canvas, (x, low - 0.055), action[0] / p.max_voltage, 0.3)
    return canvas


def _draw_push(canvas: Canvas, start: Point, share: float, length: float) -> None:
    """Draw a horizontal arrow, as long as the action is strong."""
    if abs(share) < 0.01:
        return
    end = start[0] + share * length, start[1]
    canvas.stroke([start, end], 3 * canvas.pixel, SIGNAL)
    _draw_arrow_head(canvas, end, math.copysign(math.pi / 2, -share), 7 * canvas.pixel)


def _draw_mountain_car(car: MountainCar, state: list[float], action: list[float] | None) -> Canvas:
    p = car.parameters
    span = p.max_position - p.min_position
    canvas = Canvas(width=1.08 * span, center=((p.min_position + p.max_position) / 2, 0.12))
    ends = p.min_position - 0.1 * span, p.max_position + 0.1 * span

    road = [(x, _height(x)) for x in np.linspace(*ends, 200).tolist()]
    canvas.polygon([*road, (ends[1], -2.0), (ends[0], -2.0)], (226, 229, 222))
    canvas.stroke(road, 0.008, INK)

    wall = _height(p.min_position)
    canvas.stroke([(p.min_position, wall), (p.min_position, wall + 0.12)], 0.014, INK)

    top = _height(p.goal_position) + 0.17
    canvas.stroke([(p.goal_position, _height(p.goal_position)), (p.goal_position, top)], 0.007, INK)
    flag = [(p.goal_position, top), (p.goal_position + 0.1, top - 0.03), (p.goal_position, top - 0.06)]
    canvas.polygon(flag, GOAL)

    # The car stands on the road: its frame is the road's tangent.
    x = state[0]
    slope = math.atan(1.35 * math.cos(3 * x))
    ground = x, _height(x)
    canvas.polygon([_on(ground, slope, corner) for corner in _box((0.0, 0.077), 0.085, 0.03)], METAL)
    canvas.polygon([_on(ground, slope, corner) for corner in _box((-0.008, 0.125), 0.045, 0.025)], METAL)
    for wheel in (-0.05, 0.05):
        canvas.circle(_on(ground, slope, (wheel, 0.034)), 0.03, INK)
        canvas.circle(_on(ground, slope, (wheel, 0.034)), 0.012, FAINT)

    if action is not None:
        _draw_push(canvas, _on(ground, slope, (0.0, 0.25)), action[0], 0.2)
    return canvas


def _draw_lqr(lqr: LQR, state: list[float], action: list[float] | None) -> Canvas:
    """Draw the first two coordinates in the collectors' box, with the action as an arrow."""
    bound = lqr.parameters.state_bound
    canvas = Canvas(width=3.3 * bound)
    x, y = (*state, 0.0)[:2]

    canvas.polygon(_box((0.0, 0.0), bound, bound), (241, 241, 239))
    for k in range(-4, 5):
        at, width = k * bound / 4, (2.2 if k == 0 else 1.0) * canvas.pixel
        canvas.stroke([(at, -bound), (at, bound)], width, FAINT)
        canvas.stroke([(-bound, at), (bound, at)], width, FAINT)
    canvas.circle((0.0, 0.0), 5 * canvas.pixel, GOAL)

    if action is not None:
        u, v = (*action, 0.0)[:2]
        reach = bound / lqr.parameters.action_bound
        end = x + reach * u, y + reach * v
        canvas.stroke([(x, y), end], 3 * canvas.pixel, SIGNAL)
        if math.dist((x, y), end) > 8 * canvas.pixel:
            _draw_arrow_head(canvas, end, math.atan2(v, u) - math.pi / 2, 8 * canvas.pixel)
    # A state outside the picture is shown at its edge, hollow.
    edge_x, edge_y = 0.485 * canvas.width, 0.478 * canvas.height
    shown = min(max(x, -edge_x), edge_x), min(max(y, -edge_y), edge_y)
    canvas.circle(shown, 9 * canvas.pixel, METAL)
    if shown != (x, y):
        canvas.circle(shown, 6 * canvas.pixel, PAPER)
    return canvas


def _draw_two_tanks(tanks: TwoTanks, state: list[float], action: list[float] | None) -> Canvas:
    """Draw both tanks with their water, the set point as a mark, and the flows as streams."""
    p = tanks.parameters
    tall, gap = p.max_level, 0.35 * p.max_level
    canvas = Canvas(width=4.4 * tall, center=(0.0, tall + gap / 2))
    lines = 3 * canvas.pixel
    places = ((0.0, tall + gap, p.upper_area, state[0]), (0.0, 0.0, p.lower_area, state[1]))
    widest = max(p.upper_area, p.lower_area)

    # As far as the pump is open, so wide is its stream; the others as the root of what stands above them.
    pumped = 0.0 if action is None else action[0] / p.max_voltage
    shares = [math.sqrt(min(max(level / tall, 0.0), 1.0)) for level in state[:2]]
    ends = ((2 * tall + 2 * gap, tall + gap, pumped), (tall + gap, 0.0, shares[0]), (0.0, -gap, shares[1]))
    for top, bottom, share in ends:
        if share > 0:
            canvas.stroke([(0.0, top), (0.0, bottom)], 0.09 * tall * share, WATER)

    for x, bottom, area, level in places:
        half, full = 0.55 * tall * math.sqrt(area / widest), min(max(level, 0.0), tall)
        canvas.polygon(_box((x, bottom + full / 2), half, full / 2), WATER)
        wall = [(x - half, bottom + tall), (x - half, bottom), (x + half, bottom), (x + half, bottom + tall)]
        canvas.stroke(wall, lines, INK)

    mark = min(max(state[2], 0.0), tall)
    canvas.stroke([(-0.75 * tall, mark), (0.75 * tall, mark)], 2 * canvas.pixel, GOAL)
    return canvas


def _turned(point: Point, angle: float) -> Point:
    """Turn a point counter-clockwise about the origin."""
    c, s = math.cos(angle), math.sin(angle)
    return c * point[0] - s * point[1], s * point[0] + c * point[1]


def _on(ground: Point, slope: float, point: Point) -> Point:
    """Place a point of the car's own frame in the picture."""
    turned = _turned(point, slope)
    return ground[0] + turned[0], ground[1] + turned[1]


def _box(center: Point, half_width: float, half_height: float) -> list[Point]:
    corners = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
    return [(center[0] + a * half_width, center[1] + b * half_height) for a, b in corners]


def _height(position: float) -> float:
    """The road's height, whose slope pulls the car as the dynamics do."""
    return 0.45 * math.sin(3 * position)


def _draw_arrow_head(canvas: Canvas, tip: Point, angle: float, size: float) -> None:
    """Draw a triangle about the tip; at angle 0 it points upwards."""
    corners = [
        _turned(corner, angle) for corner in [(-size, -0.5 * size), (size, -0.5 * size), (0.0, 1.2 * size)]
    ]
    canvas.polygon([(tip[0] + x, tip[1] + y) for x, y in corners], SIGNAL)


_DRAWINGS: dict[type[Environment], Drawing] = {
    Pendulum: _draw_pendulum,
    CartPole: _draw_cart_pole,
    MountainCar: _draw_mountain_car,
    LQR: _draw_lqr,
    TwoTanks: _draw_two_tanks,
}


def drawing_of(environment: Environment) -> Drawing:
    """Return how the environment is drawn."""
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

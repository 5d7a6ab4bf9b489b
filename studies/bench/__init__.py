"""One policy update against its floor: the least work in which the same numbers can be had."""

"""A package only so that its `conftest` has a name of its own."""

"""How often the evaluator is right: verdicts and intervals against true returns, on plants of their own."""

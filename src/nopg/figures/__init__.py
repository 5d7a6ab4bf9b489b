"""The paper's figures and ours, drawn from records alone."""

"""Nonnegative matrix factorization with dependent Indian Buffet Process priors."""

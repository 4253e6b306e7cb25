"""The paper's experiments, one module each; `dibpnmf reproduce` runs them."""

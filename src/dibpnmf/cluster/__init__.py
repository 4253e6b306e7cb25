"""Blocks of rows on a Dask cluster: the same compiled updates, elsewhere.

Y stays with the workers, by row and by column. A half-sweep sends the other side's loadings to each
worker once and the rows' own loadings to where their cells are; updated loadings come back.
"""

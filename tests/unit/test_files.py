# ruff: noqa: E501
"""Data files: what is read, what is recognised, and what is refused in one line."""

from __future__ import annotations

import gzip
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

from dibpnmf.files import FileError, read_table

Y = np.array([[1.0, 0.0, 2.5], [0.0, 3.0, 0.25]])
ROWS, COLUMNS = ["ann", "bob"], ["x", "y", "z"]


def read(tmp_path, name, content, **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, **options)


def dense(table):
    return table.matrix.toarray() if sp.issparse(table.matrix) else table.matrix


# ---------------------------------------------------------------------- delimited text

TABLES = {
    "header and names": ("a.csv", ",x,y,z\nann,1,0,2.5\nbob,0,3,0.25\n", ROWS, COLUMNS),
    "names below a name": ("a.csv", "who,x,y,z\nann,1,0,2.5\nbob,0,3,.25", ROWS, COLUMNS),
    "as R writes it": ("a.csv", 'x,y,z\n"ann",1,0,2.5\n"bob",0,3,0.25\n', ROWS, COLUMNS),
    "header only": ("a.csv", "x,y,z\n1,0,2.5\n0,3,0.25\n", None, COLUMNS),
    "names only": ("a.csv", "ann,1,0,2.5\nbob,0,3,0.25\n", ROWS, None),
    "numbers only": ("a.csv", "1,0,2.5\n0,3,0.25\n", None, None),
    "numbered by pandas": ("a.csv", ",0,1,2\n0,1,0,2.5\n1,0,3,0.25\n", ["0", "1"], list("012")),
    "numbers of rows": ("a.csv", "id,x,y,z\n7,1,0,2.5\n9,0,3,0.25\n", ["7", "9"], COLUMNS),
    "tabs": ("a.tsv", "\tx\ty\tz\nann\t1\t0\t2.5\nbob\t0\t3\t2.5e-1\n", ROWS, COLUMNS),
    "semicolons": ("a.csv", ";x;y;z\nann;1;0;2.5\nbob;0;3;0.25\n", ROWS, COLUMNS),
    "text file": ("a.txt", "x\ty\tz\n1\t0\t2.5\n0\t3\t0.25\n", None, COLUMNS),
    "windows": ("a.csv", ",x,y,z\r\nann,1,0,2.5\r\nbob,0,3,0.25\r\n", ROWS, COLUMNS),
    "mark and blank lines": ("a.csv", "\ufeff,x,y,z\n\nann,1,0,2.5\n\nbob,0,3,0.25\n\n", ROWS, COLUMNS),
    "quotes": ("a.csv", '"","x","y","z"\n"ann"," 1","0","2.5"\n"bob","0","3","0.25"', ROWS, COLUMNS),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLES)
@pytest.mark.parametrize("packed", [False, True])
def test_headers_and_names_are_recognised(tmp_path, case, packed):
    name, text, rows, columns = TABLES[case]
    content = text.encode()
    if packed:
        name, content = name + ".gz", gzip.compress(content)
    table = read(tmp_path, name, content)
    np.testing.assert_array_equal(dense(table), Y)
    assert table.row_names == rows
    assert table.column_names == columns


def test_utf16_is_read(tmp_path):
    table = read(tmp_path, "a.csv", ",é,ß\nann,1,2\n".encode("utf-16"))
    assert table.column_names == ["é", "ß"]


def test_missing_cells(tmp_path):
    text = "x,y,z\n,NA,1\nnan,?,2\nnull,-9,0\n"
    table = read(tmp_path, "a.csv", text, missing=["-9"])
    np.testing.assert_array_equal(table.matrix, [[np.nan, np.nan, 1], [np.nan, np.nan, 2],
                                                 [np.nan, np.nan, 0]])  # fmt: skip
    assert np.isnan(read(tmp_path, "a.csv", "1,0\n2,3", zeros_missing=True).matrix[0, 1])


def test_a_column_of_labels_is_kept_apart(tmp_path):
    text = "who,x,class,y\nann,1,A,2\nbob,0,B,3\n"
    table = read(tmp_path, "a.csv", text, label="class")
    assert table.labels == ["A", "B"]
    assert (table.row_names, table.column_names) == (ROWS, ["x", "y"])
    np.testing.assert_array_equal(table.matrix, [[1, 2], [0, 3]])
    with pytest.raises(FileError, match="no column is called 'kind'"):
        read(tmp_path, "a.csv", text, label="kind")


@pytest.mark.parametrize(
    ("text", "options"),
    [("row,col,value\nann,x,1\nann,z,2.5\nbob,y,3\nbob,z,0.25\n", {}),
     ("ann\tx\t1\t99\nann\tz\t2.5\t98\nbob\ty\t3\t97\nbob\tz\t0.25\t96\n", {"layout": "triplets"}),
     ("User,Item,Rating\nann,x,1\nann,z,2.5\nbob,y,3\nbob,z,.25\n", {"layout": "triplets"})],
)  # fmt: skip
def test_triplets(tmp_path, text, options):
    table = read(tmp_path, "a.csv", text, **options)
    assert table.row_names == ROWS
    order = [table.column_names.index(name) for name in COLUMNS]
    np.testing.assert_array_equal(dense(table)[:, order], Y)


def test_triplets_keep_zeros_that_are_given_and_sort_numbers(tmp_path):
    table = read(tmp_path, "a.csv", "row,col,value\n10,2,0\n9,1,3\n")
    assert (table.row_names, table.column_names) == (["9", "10"], ["1", "2"])
    assert table.matrix.nnz == 2
    np.testing.assert_array_equal(dense(table), [[3, 0], [0, 0]])


# ---------------------------------------------------------------------- other formats


def test_numpy_files(tmp_path):
    np.save(tmp_path / "a.npy", Y)
    np.savez(tmp_path / "a.npz", Y, row_names=ROWS, column_names=COLUMNS)
    np.testing.assert_array_equal(read_table(tmp_path / "a.npy").matrix, Y)
    table = read_table(tmp_path / "a.npz")
    np.testing.assert_array_equal(table.matrix, Y)
    assert (table.row_names, table.column_names) == (ROWS, COLUMNS)


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_matrix, sp.coo_array, sp.dia_array])
def test_sparse_npz(tmp_path, make):
    sp.save_npz(tmp_path / "a.npz", make(Y))
    np.testing.assert_array_equal(dense(read_table(tmp_path / "a.npz")), Y)


S = Y.T @ Y  # symmetric


@pytest.mark.parametrize(
    "matrix", [Y, sp.coo_array(Y), sp.coo_array(Y > 0), S, sp.coo_array(S), np.array([[1, 2]])]
)
def test_matrix_market(tmp_path, matrix):
    scipy.io.mmwrite(tmp_path / "a.mtx", matrix)
    expected = matrix.toarray() if sp.issparse(matrix) else matrix
    np.testing.assert_array_equal(dense(read_table(tmp_path / "a.mtx")), expected)
    packed = tmp_path / "a.mtx.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.mtx").read_bytes()))
    np.testing.assert_array_equal(dense(read_table(packed)), expected)


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(Y, columns=COLUMNS)
    frame.to_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").row_names is None
    frame.index = ROWS
    frame.iloc[0, 1] = np.nan
    frame.to_parquet(tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    np.testing.assert_array_equal(table.matrix, frame.to_numpy())
    assert (table.row_names, table.column_names) == (ROWS, COLUMNS)
    frame["when"] = pd.Timestamp("2020-01-01")
    frame.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(FileError, match=r"column 4 \('when'\).*timestamp"):
        read_table(tmp_path / "a.parquet")


@pytest.mark.parametrize("kind", ["array", "csr_matrix", "csc_matrix"])
def test_h5ad(tmp_path, kind):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        if kind == "array":
            file["X"] = Y
        else:
            matrix = sp.csr_array(Y) if kind == "csr_matrix" else sp.csc_array(Y)
            group = file.create_group("X")
            group.attrs["encoding-type"] = kind
            group.attrs["shape"] = Y.shape
            for part in ("data", "indices", "indptr"):
                group[part] = getattr(matrix, part)
        for name, names in (("obs", ROWS), ("var", COLUMNS)):
            group = file.create_group(name)
            group.attrs["_index"] = "names"
            group.create_dataset("names", data=names, dtype=h5py.string_dtype())
    table = read_table(tmp_path / "a.h5ad")
    np.testing.assert_array_equal(dense(table), Y)
    assert (table.row_names, table.column_names) == (ROWS, COLUMNS)


@pytest.mark.parametrize(("name", "module"), [("parquet", "pyarrow"), ("h5ad", "h5py")])
def test_without_its_reader_the_extra_is_named(tmp_path, monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(FileError, match=rf"pip install \"dibpnmf\[{name}\]\""):
        read(tmp_path, f"a.{name}", b"")


# ---------------------------------------------------------------------- refused

BAD = {
    "text in a number": ("a.csv", ",x,y\nann,1,2\nbob,l0,3\n", r"row 3, column 2 \('x'\): found 'l0'"),
    "negative": ("a.csv", "x,y\n1,2\n3,-4\n", r"row 3, column 2 \('y'\): found '-4', a negative"),
    "negative in the first": ("a.csv", "x,y\n1,2\n-3,4\n", r"row 3, column 1 \('x'\): found '-3'"),
    "infinite": ("a.csv", "1,2\n3,inf\n", "row 2, column 2: found 'inf', an infinite"),
    "underscore": ("a.csv", "1,2\n3,1_000\n", "row 2, column 2: found '1_000'"),
    "unclosed quote": ("a.csv", 'x,y\n1,2\n3,"4\n5,6\n', "row 3: found an unclosed quote"),
    "cut in the middle": ("a.csv", "x,y,z\n1,2,3\n4,5", "row 3: found 2 cells where 3 are"),
    "too many": ("a.csv", "x,y\n1,2\n1,2,3\n", "row 3: found 3 cells where 2 are"),
    "header too long": ("a.csv", "w,x,y,z\n1,2\n", "row 2: found 2 cells where 4 are"),
    "empty": ("a.csv", "", "an empty file"),
    "blank": ("a.csv", "\n \n\n", "an empty file"),
    "header only": ("a.csv", "x,y\n", "a header and no row"),
    "names only": ("a.csv", "name\nann\nbob\n", "found 'ann', which is not a number"),
    "not text": ("a.csv", b"1,2\n\xff\xfe1,2\n", "row 2: byte 0xff is not utf-8"),
    "zero bytes": ("a.csv", b"1,2\n\0\0", "row 2: found a zero byte"),
    "cut gzip": ("a.csv.gz", gzip.compress(b"1,2\n" * 99)[:-12], "cut off gzip"),
    "not the gzip it says": ("a.npy.gz", b"\x1f\x8bxx", "gzip"),
    "triplets short": ("a.csv", "row,col,value\na,b,1\na,c\n", "row 3: found 2 cells"),
    "triplets text": ("a.csv", "row,col,value\na,b,x1\n", r"row 2, column 3 \(value\): found 'x1'"),
    "triplets negative": ("a.csv", "row,col,value\na,b,-1\n", "which is negative"),
    "triplets twice": ("a.csv", "row,col,value\na,b,1\na,c,2\na,b,3\n", "row 4: repeats the cell 'a', 'b' of row 2"),
    "triplets nameless": ("a.csv", "row,col,value\n,b,1\n", "row 2, column 1: found no name"),
    "unknown": ("a.xls", b"", "its name ends in none of .csv"),
    "market": ("a.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 5\n", "row 3: found 1 entries where 2 are"),
    "market text": ("a.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 x\n", "row 3, column 3: found 'x'"),
    "market huge": ("a.mtx", "%%MatrixMarket matrix array real general\n900000 900000\n1\n", "found 1 entries where 810000000000 are"),
    "market wide": ("a.mtx", "%%MatrixMarket matrix coordinate real general\n9000000000 2 1\n1 1 5\n", "9000000000"),
    "market negative": ("a.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 -5\n", "row 2, column 1: found -5"),
    "market complex": ("a.mtx", "%%MatrixMarket matrix coordinate complex general\n2 2 1\n2 1 5 1\n", "complex"),
    "no npy": ("a.npy", b"nothing", "never loaded"),
    "pickle": ("a.npy", pickle.dumps({"a": 1}), "never loaded"),
    "npz cut": ("a.npz", b"PK\x03\x04", "not a whole NumPy file"),
    "no parquet": ("a.parquet", b"PAR1", "not a whole Parquet"),
    "no h5ad": ("a.h5ad", b"\x89HDF", "not a whole .h5ad"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refused_in_one_line_that_names_the_place(tmp_path, case):
    name, content, message = BAD[case]
    with pytest.raises(FileError, match=message) as caught:
        read(tmp_path, name, content)
    text = str(caught.value)
    assert text.startswith(str(tmp_path / name))
    assert text.isprintable()
    assert len(text) < 400


def save(path, array, **options):
    np.save(path, array, **options)
    return path.read_bytes()


def test_arrays_that_are_no_matrix_are_refused(tmp_path):
    for array, message in ((np.ones(3), "shape"), (np.ones((2, 2, 2)), "shape"),
                           (np.array([["a"]]), "numbers are wanted"), (np.ones((0, 3)), "empty"),
                           (np.array([[1j]]), "numbers are wanted"),
                           (np.array([[1.0, -2.0]]), "row 1, column 2: found -2"),
                           (np.array([[1e300]]), "too large")):  # fmt: skip
        np.save(tmp_path / "a.npy", array)
        with pytest.raises(FileError, match=message):
            read_table(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(FileError, match="never loaded"):
        read_table(tmp_path / "a.npy")


def test_a_pickle_is_never_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "hit"), "w"))

    np.save(tmp_path / "a.npy", np.array([[Bomb()]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "b.npz", np.array([[Bomb()]], dtype=object))
    (tmp_path / "c.npy").write_bytes(pickle.dumps(Bomb()))
    for name in ("a.npy", "b.npz", "c.npy"):
        with pytest.raises(FileError, match="never loaded"):
            read_table(tmp_path / name)
    assert not (tmp_path / "hit").exists()


@pytest.mark.parametrize("indices", [[0, 7], [-1, 1]])
def test_sparse_indices_out_of_range_are_refused(tmp_path, indices):
    np.savez(tmp_path / "a.npz", format=b"csr", shape=(2, 3), data=[1.0, 2.0], indptr=[0, 1, 2],
             indices=indices)  # fmt: skip
    with pytest.raises(FileError, match="not a valid sparse matrix"):
        read_table(tmp_path / "a.npz")


def test_what_is_no_file_is_refused(tmp_path):
    for path, message in ((tmp_path, "a folder"), (tmp_path / "none.csv", "no such file"),
                          ("/dev/null", "not a regular file")):  # fmt: skip
        with pytest.raises(FileError, match=message):
            read_table(path)

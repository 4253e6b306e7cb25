# ruff: noqa: E501
"""Make the corpus of malformed files anew: python -m tests.corpus.make

Files go to tests/corpus/files: text that is wrong in some way a person or a program gets it wrong,
and whole files of every format with bytes cut off, flipped, zeroed, repeated or put in. Some are
still valid: what counts is that each ends in a result or a clear error.
"""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

FILES = Path(__file__).with_name("files")
MARKET = "%%MatrixMarket matrix coordinate real general\n"
ARRAY = "%%MatrixMarket matrix array real general\n"

TEXTS: dict[str, str] = {
    "empty.csv": "",
    "blank.csv": "\n\n   \n",
    "one-cell.csv": "5",
    "one-word.csv": "hello",
    "one-row.csv": "1,2,3",
    "one-column.csv": "1\n2\n3\n",
    "header-only.csv": "a,b,c\n",
    "names-only.csv": "name\nann\nbob\n",
    "ragged-short.csv": "a,b,c\n1,2,3\n4,5\n6,7,8\n",
    "ragged-long.csv": "a,b,c\n1,2,3\n4,5,6,7\n",
    "header-too-long.csv": "a,b,c,d,e\n1,2,3\n4,5,6\n",
    "header-too-short.csv": "a\n1,2,3\n4,5,6\n",
    "text-in-number.csv": "a,b\n1,2\n3,four\n",
    "letter-o.csv": "a,b\n1,2\n3,1O\n",
    "unclosed-quote.csv": 'a,b\n1,2\n3,"4\n5,6\n',
    "unclosed-quote-in-header.csv": 'a,"b\n1,2\n',
    "quote-in-middle.csv": 'a,b\n1,2"3\n',
    "text-after-quote.csv": 'a,b\n"1"x,2\n',
    "only-quotes.csv": '""""""\n',
    "negative.csv": "a,b\n1,-2\n3,4\n",
    "minus-zero.csv": "a,b\n1,-0\n3,4\n",
    "infinite.csv": "a,b\n1,inf\n3,4\n",
    "minus-infinite.csv": "a,b\n1,-inf\n3,4\n",
    "too-large.csv": "a,b\n1,1e300\n3,4\n",
    "overflow.csv": "a,b\n1,1e999\n3,4\n",
    "large.csv": "a,b\n1,1e249\n3,4\n",
    "tiny.csv": "a,b\n1e-320,1e-310\n5e-324,1e-300\n",
    "wide-range.csv": "a,b\n1e-300,1e249\n1,1e-200\n",
    "all-zero.csv": "a,b\n0,0\n0,0\n",
    "all-missing.csv": "a,b\nNA,NA\n,\n",
    "missing-row.csv": "a,b\nNA,NA\n1,2\n",
    "missing-column.csv": "a,b\nNA,1\nNA,2\n",
    "one-observed.csv": "a,b\nNA,1\nNA,NA\n",
    "one-observed-zero.csv": "a,b\nNA,0\nNA,NA\n",
    "constant.csv": "a,b\n3,3\n3,3\n3,3\n",
    "underscore.csv": "a,b\n1,1_000\n3,4\n",
    "hexadecimal.csv": "a,b\n1,0x10\n3,4\n",
    "thousands.csv": 'a,b\n1,"1,000"\n3,4\n',
    "decimal-comma.csv": "a;b\n1,5;2,5\n3,5;4,5\n",
    "percent.csv": "a,b\n1,20%\n3,4\n",
    "currency.csv": "a,b\n1,$20\n3,4\n",
    "date.csv": "a,b\n1,2020-01-01\n3,4\n",
    "boolean.csv": "a,b\n1,True\n3,4\n",
    "formula.csv": "a,b\n1,=1+1\n3,4\n",
    "formula-names.csv": ",=cmd|' /C calc'!A0,@SUM(1)\n=HYPERLINK(1),1,2\n+1,3,4\n",
    "script-names.csv": ",<script>alert(1)</script>,</script><b>\n<img src=x onerror=alert(1)>,1,2\nb,3,4\n",
    "path-names.csv": ",../../etc/passwd,/etc/passwd\n..\\..\\x,1,2\n$(rm -rf x),3,4\n",
    "control-names.csv": ",\x1b[31mred,\x07bell\n\x08back,1,2\nb,3,4\n",
    "unicode-names.csv": ",\u202egnp,e\u0301\n\U0001f600,1,2\n\u200b,3,4\n",
    "same-names.csv": ",a,a\nx,1,2\nx,3,4\n",
    "empty-names.csv": ",,\nx,1,2\ny,3,4\n",
    "full-width-digits.csv": "a,b\n１,２\n３,４\n",
    "roman.csv": "a,b\nⅣ,2\n3,4\n",
    "spaces.csv": "a , b\n 1 , 2 \n 3 , 4 \n",
    "space-separated.csv": "a b\n1 2\n3 4\n",
    "tabs-in-csv.csv": "a\tb\n1\t2\n3\t4\n",
    "mixed-delimiters.csv": "a,b\n1;2\n3\t4\n",
    "carriage-returns.csv": "a,b\r1,2\r3,4\r",
    "windows.csv": "a,b\r\n1,2\r\n3,4\r\n",
    "trailing-commas.csv": "a,b,\n1,2,\n3,4,\n",
    "leading-commas.csv": ",a,b\n,1,2\n,3,4\n",
    "only-commas.csv": ",,,\n,,,\n",
    "comment.csv": "# a comment\na,b\n1,2\n",
    "nul.csv": "a,b\n1,\x002\n3,4\n",
    "two-headers.csv": "a,b\na,b\n1,2\n",
    "units-row.csv": "a,b\nkg,m\n1,2\n3,4\n",
    "json.csv": '[{"a": 1}, {"a": 2}]',
    "html.csv": "<!DOCTYPE html>\n<html><body>404, not found</body></html>\n",
    "long-cell.csv": "a,b\n1," + "9" * 5000 + "\n3,4\n",
    "long-name.csv": "a," + "b" * 5000 + "\n1,2\n3,4\n",
    "many-columns.csv": ",".join("1" * 1 for _ in range(2000)) + "\n",
    "git-conflict.csv": "a,b\n<<<<<<< HEAD\n1,2\n=======\n1,3\n>>>>>>> x\n",
    "triplets-short.csv": "row,col,value\na,b,1\na,c\n",
    "triplets-text.csv": "row,col,value\na,b,one\n",
    "triplets-negative.csv": "row,col,value\na,b,-1\n",
    "triplets-twice.csv": "row,col,value\na,b,1\na,b,2\n",
    "triplets-nameless.csv": "row,col,value\n,b,1\na,,2\n",
    "triplets-empty.csv": "row,col,value\n",
    "triplets-one.csv": "row,col,value\na,b,1\n",
    "triplets-infinite.csv": "row,col,value\na,b,inf\n",
    "triplets-missing.csv": "row,col,value\na,b,NA\na,c,1\n",
    "triplets-long-number.csv": "row,col,value\n" + "9" * 5000 + ",1,1\n2,2,2\n",
    "triplets-cut.csv": 'row,col,value\na,b,1\n"a,c',
    "wrong-extension.xlsx": "a,b\n1,2\n",
    "no-extension": "a,b\n1,2\n",
    "only-gz.gz": "a,b\n1,2\n",
    "not-gzip.csv.gz": "a,b\n1,2\n3,4\n",
    "not-npy.npy": "a,b\n1,2\n",
    "not-npz.npz": "a,b\n1,2\n",
    "not-parquet.parquet": "PAR1PAR1",
    "not-h5ad.h5ad": "\x89HDF\r\n\x1a\n",
    "market-empty.mtx": "",
    "market-banner-only.mtx": MARKET,
    "market-no-banner.mtx": "2 2 1\n1 1 5\n",
    "market-wrong-banner.mtx": "%%MatrixMarket vector coordinate real general\n2 2 1\n1 1 5\n",
    "market-complex.mtx": "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 5 1\n",
    "market-pattern.mtx": "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 1\n2 2\n",
    "market-pattern-values.mtx": "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 1 5\n2 2 5\n",
    "market-skew.mtx": "%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 5\n",
    "market-symmetric-oblong.mtx": "%%MatrixMarket matrix coordinate real symmetric\n3 2 1\n2 1 5\n",
    "market-too-few.mtx": MARKET + "2 2 3\n1 1 5\n2 2 1\n",
    "market-too-many.mtx": MARKET + "2 2 1\n1 1 5\n2 2 1\n",
    "market-index-zero.mtx": MARKET + "2 2 1\n0 1 5\n",
    "market-index-out.mtx": MARKET + "2 2 1\n3 1 5\n",
    "market-index-negative.mtx": MARKET + "2 2 1\n-1 1 5\n",
    "market-index-huge.mtx": MARKET + "2 2 1\n99999999999999999999 1 5\n",
    "market-text.mtx": MARKET + "2 2 1\n1 1 five\n",
    "market-negative.mtx": MARKET + "2 2 1\n1 1 -5\n",
    "market-nan.mtx": MARKET + "2 2 2\n1 1 nan\n2 2 1\n",
    "market-inf.mtx": MARKET + "2 2 1\n1 1 inf\n",
    "market-no-entries.mtx": MARKET + "2 2 0\n",
    "market-no-rows.mtx": MARKET + "0 2 0\n",
    "market-negative-size.mtx": MARKET + "-2 2 1\n1 1 5\n",
    "market-huge.mtx": MARKET + "4000000000 4000000000 1\n1 1 5\n",
    "market-wide.mtx": MARKET + "2 900000000 1\n1 1 5\n",
    "market-many-declared.mtx": MARKET + "10 10 900000000000\n1 1 5\n",
    "market-array-short.mtx": ARRAY + "2 2\n1\n2\n3\n",
    "market-array-long.mtx": ARRAY + "2 2\n1\n2\n3\n4\n5\n",
    "market-array-huge.mtx": ARRAY + "900000 900000\n1\n",
    "market-twice.mtx": MARKET + "2 2 2\n1 1 5\n1 1 6\n",
}

BYTES: dict[str, bytes] = {
    "latin-1.csv": "a,b\nJosé,2\n".encode("latin-1"),
    "utf-16.csv": "a,b\n1,2\n3,4\n".encode("utf-16"),
    "utf-16-cut.csv": "a,b\n1,2\n3,4\n".encode("utf-16")[:-1],
    "utf-32.csv": "a,b\n1,2\n".encode("utf-32"),
    "surrogate.csv": b"a,\xed\xa0\x80\n1,2\n3,4\n",
    "bom-only.csv": b"\xef\xbb\xbf",
    "gzip-empty.csv.gz": gzip.compress(b"", mtime=0),
    "gzip-twice.csv.gz": gzip.compress(gzip.compress(b"a,b\n1,2\n3,4\n", mtime=0), mtime=0),
    "gzip-tail.csv.gz": gzip.compress(b"a,b\n1,2\n3,4\n", mtime=0) + b"tail",
    "gzip-unnamed.csv": gzip.compress(b"a,b\n1,2\n3,4\n", mtime=0),
    "pickle.npy": pickle.dumps([[1.0, 2.0]], protocol=2),
    "pickle.npz": pickle.dumps({"a": 1}, protocol=2),
}


def npy(array, **options) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npz(**arrays) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def npy_with_header(header: str, body: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def zipped(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


def arrays() -> dict[str, bytes]:
    """NumPy files whose arrays are not a matrix, or lie about themselves."""
    Y = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.5]])
    return {
        "vector.npy": npy(np.ones(3)),
        "scalar.npy": npy(np.array(3.0)),
        "cube.npy": npy(np.ones((2, 2, 2))),
        "no-rows.npy": npy(np.ones((0, 3))),
        "no-columns.npy": npy(np.ones((3, 0))),
        "strings.npy": npy(np.array([["a", "b"]])),
        "complex.npy": npy(np.array([[1j, 2.0]])),
        "dates.npy": npy(np.array([["2020-01-01"]], dtype="datetime64[D]")),
        "objects.npy": npy(np.array([[1, "a"]], dtype=object), allow_pickle=True),
        "structured.npy": npy(np.array([(1, 2.0)], dtype=[("a", int), ("b", float)])),
        "booleans.npy": npy(np.array([[True, False], [False, True]])),
        "half.npy": npy(np.array([[1, 0.5]], dtype=np.float16)),
        "long-double.npy": npy(np.array([[1, 0.5]], dtype=np.longdouble)),
        "big-endian.npy": npy(Y.astype(">f8")),
        "fortran.npy": npy(np.asfortranarray(Y)),
        "unsigned.npy": npy(np.array([[2**64 - 1, 1]], dtype=np.uint64)),
        "negative.npy": npy(-Y),
        "infinite.npy": npy(np.array([[np.inf, 1.0]])),
        "all-nan.npy": npy(np.full((2, 2), np.nan)),
        "some-nan.npy": npy(np.array([[np.nan, 1.0], [2.0, 3.0]])),
        "huge-shape.npy": npy_with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999, 99999999)}"),
        "large-shape.npy": npy_with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (99999, 99999)}", b"\0" * 64),
        "negative-shape.npy": npy_with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3)}", b"\0" * 64),
        "no-descr.npy": npy_with_header("{'fortran_order': False, 'shape': (1, 3)}", b"\0" * 64),
        "code-header.npy": npy_with_header("__import__('os').system('true')", b"\0" * 64),
        "unknown-descr.npy": npy_with_header("{'descr': 'x9', 'fortran_order': False, 'shape': (1, 3)}", b"\0" * 64),
        "object-descr.npy": npy_with_header("{'descr': '|O', 'fortran_order': False, 'shape': (1, 3)}", pickle.dumps([1])),
        "two-arrays.npz": npz(a=Y, b=Y),
        "no-arrays.npz": zipped(),
        "names-only.npz": npz(row_names=["a"]),
        "wrong-names.npz": npz(Y=Y, row_names=["a"]),
        "names-of-numbers.npz": npz(Y=Y, row_names=[1, 2]),
        "objects.npz": npz(Y=np.array([[{}]], dtype=object)),
        "not-arrays.npz": zipped(**{"a.txt": b"hello"}),
        "path-outside.npz": zipped(**{"../../outside.npy": npy(Y)}),
        "absolute-path.npz": zipped(**{"/tmp/outside.npy": npy(Y)}),
    }  # fmt: skip


def sparse_arrays() -> dict[str, bytes]:
    """Archives as scipy writes them, whose parts do not fit together."""
    csr = {"format": b"csr", "shape": (2, 3), "data": [1.0, 2.0, 3.0], "indices": [0, 2, 1],
           "indptr": [0, 2, 3]}  # fmt: skip
    return {
        "sparse-good.npz": npz(**csr),
        "sparse-index-out.npz": npz(**csr | {"indices": [0, 9, 1]}),
        "sparse-index-negative.npz": npz(**csr | {"indices": [0, -2, 1]}),
        "sparse-indptr-down.npz": npz(**csr | {"indptr": [0, 3, 2]}),
        "sparse-indptr-long.npz": npz(**csr | {"indptr": [0, 1, 2, 3]}),
        "sparse-indptr-far.npz": npz(**csr | {"indptr": [0, 2, 9]}),
        "sparse-data-short.npz": npz(**csr | {"data": [1.0]}),
        "sparse-shape-huge.npz": npz(**csr | {"shape": (2, 2**40)}),
        "sparse-shape-negative.npz": npz(**csr | {"shape": (-2, 3)}),
        "sparse-shape-three.npz": npz(**csr | {"shape": (2, 3, 4)}),
        "sparse-format-unknown.npz": npz(**csr | {"format": b"xyz"}),
        "sparse-format-number.npz": npz(**csr | {"format": 3}),
        "sparse-no-data.npz": npz(format=b"csr", shape=(2, 3)),
        "sparse-negative.npz": npz(**csr | {"data": [1.0, -2.0, 3.0]}),
        "sparse-nan.npz": npz(**csr | {"data": [1.0, np.nan, 3.0]}),
        "sparse-complex.npz": npz(**csr | {"data": [1j, 2.0, 3.0]}),
        "sparse-strings.npz": npz(**csr | {"data": ["a", "b", "c"]}),
        "sparse-duplicates.npz": npz(**csr | {"indices": [0, 0, 1]}),
        "sparse-empty.npz": npz(format=b"csr", shape=(2, 3), data=np.zeros(0), indices=np.zeros(0, int), indptr=[0, 0, 0]),
        "sparse-float-indices.npz": npz(**csr | {"indices": [0.0, 2.0, 1.0]}),
    }  # fmt: skip


def whole() -> dict[str, bytes]:
    """One good file of every format."""
    Y = np.random.default_rng(0).exponential(1.0, (5, 4)).round(3)
    table = "," + ",".join("abcd") + "\n" + "".join(
        f"r{i}," + ",".join(map(str, row)) + "\n" for i, row in enumerate(Y)
    )  # fmt: skip
    market, sparse = io.BytesIO(), io.BytesIO()
    scipy.io.mmwrite(market, sp.coo_array(Y))
    sp.save_npz(sparse, sp.csr_array(np.where(Y > 0.5, Y, 0.0)))
    files = {
        "table.csv": table.encode(),
        "table.tsv": table.replace(",", "\t").encode(),
        "table.csv.gz": gzip.compress(table.encode(), mtime=0),
        "market.mtx": market.getvalue(),
        "array.npy": npy(Y),
        "archive.npz": npz(Y=Y),
        "sparse.npz": sparse.getvalue(),
    }
    return files | parquet(Y) | h5ad(Y)


def parquet(Y) -> dict[str, bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table(dict(zip("abcd", Y.T, strict=True))), file)
    return {"table.parquet": file.getvalue()}


def h5ad(Y) -> dict[str, bytes]:
    import h5py

    file = io.BytesIO()
    with h5py.File(file, "w") as root:
        root["X"] = Y
        for group, names in (("obs", [f"r{i}" for i in range(5)]), ("var", list("abcd"))):
            root.create_group(group).attrs["_index"] = "_index"
            root[group].create_dataset("_index", data=names, dtype=h5py.string_dtype())
    return {"cells.h5ad": file.getvalue()}


def damaged(content: bytes) -> dict[str, bytes]:
    """Ways for a whole file to be no longer what it was."""
    n = len(content)
    rng = np.random.default_rng(n)

    def flipped(at: int) -> bytes:
        return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]

    return {
        "cut-quarter": content[: n // 4],
        "cut-half": content[: n // 2],
        "cut-last": content[:-1],
        "cut-first": content[1:],
        "flip-early": flipped(min(9, n - 1)),
        "flip-middle": flipped(n // 2),
        "flip-late": flipped(n - 5),
        "zeros": content[: n // 3] + b"\0" * (n // 3) + content[2 * (n // 3) :],
        "twice": content + content,
        "inserted": content[: n // 2] + rng.bytes(7) + content[n // 2 :],
    }


def main() -> None:
    """Write all files."""
    FILES.mkdir(exist_ok=True)
    for old in FILES.iterdir():
        old.unlink()
    contents = {name: text.encode("utf-8", "surrogatepass") for name, text in TEXTS.items()}
    contents["not-h5ad.h5ad"] = b"\x89HDF\r\n\x1a\n"
    contents |= BYTES | {
        f"numpy-{name}": content for name, content in (arrays() | sparse_arrays()).items()
    }
    for name, content in whole().items():
        contents |= {f"{how}-{name}": changed for how, changed in damaged(content).items()}
    for name, content in contents.items():
        (FILES / name).write_bytes(content)
    print(f"{len(contents)} files, {sum(map(len, contents.values()))} bytes")


if __name__ == "__main__":
    main()

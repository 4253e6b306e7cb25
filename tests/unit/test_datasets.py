import io
import os
import stat
import tarfile
import threading
import zipfile
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import numpy as np
import pooch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dibpnmf import datasets
from dibpnmf.datasets import BadArchiveError, _archives, _documents, _movielens
from dibpnmf.datasets._archives import DATA_VARIABLE, Archive, read_members

CONTENT = b"some words\n" * 50
WANTED = {"box/file.txt"}


# --- matrices made here ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_planted_truth_is_as_described(seed):
    planted = datasets.make_planted(
        30, 20, 6, 0.02, noise="none", background=0.1, random_state=seed
    )
    A, X = planted.A, planted.X
    assert A.shape == (30, 6)
    assert X.shape == (20, 6)
    assert A.any(axis=0).all()
    assert X.any(axis=0).all()
    assert min(A[A > 0].min(), X[X > 0].min()) >= 0.25
    np.testing.assert_allclose(planted.mean, A @ X.T + 0.1)
    np.testing.assert_array_equal(planted.data, planted.mean)
    assert planted.data is not planted.mean


def test_planted_loadings_have_the_stated_distribution():
    planted = datasets.make_planted(2000, 2000, 5, 0.3, noise="none", random_state=0)
    for factor in (planted.A, planted.X):
        present = factor[factor > 0]
        assert present.size / factor.size == pytest.approx(0.3, abs=0.02)
        assert present.mean() == pytest.approx(1.0, abs=0.02)
        assert present.var() == pytest.approx(0.75**2 / 4, rel=0.1)


@pytest.mark.parametrize(
    ("noise", "variance"),
    [
        ("exponential", np.square),
        ("poisson", np.asarray),
        ("gaussian", lambda mean: np.full_like(mean, 0.01)),
    ],
)
def test_noise_scatters_about_the_mean(noise, variance):
    planted = datasets.make_planted(300, 300, noise=noise, background=1.0, random_state=0)
    z = (planted.data - planted.mean) / np.sqrt(variance(planted.mean))
    assert z.mean() == pytest.approx(0.0, abs=0.02)
    assert z.var() == pytest.approx(1.0, abs=0.05)
    assert planted.data.min() >= 0


def test_binary_is_the_papers_matrix():
    Y = datasets.make_binary(random_state=0)
    assert Y.shape == (20, 30)
    assert Y.dtype == np.float64
    assert set(np.unique(Y)) == {0.0, 1.0}
    assert datasets.make_binary(200, 300, p=0.1, random_state=0).mean() == pytest.approx(
        0.1, abs=0.01
    )


@pytest.mark.parametrize(
    "make",
    [datasets.make_binary, lambda **seed: datasets.make_planted(**seed).data],
    ids=["binary", "planted"],
)
def test_a_seed_fixes_the_draw(make):
    np.testing.assert_array_equal(make(random_state=3), make(random_state=3))
    assert not np.array_equal(make(random_state=3), make(random_state=4))


@pytest.mark.parametrize(
    ("make", "parameters", "error", "message"),
    [
        (datasets.make_planted, {"n_rows": 0}, ValueError, "n_rows must be at least 1; got 0"),
        (datasets.make_planted, {"n_factors": 2.0}, TypeError, "n_factors must be an integer"),
        (datasets.make_planted, {"density": 0}, ValueError, r"density .* in \(0, 1\]; got 0"),
        (datasets.make_planted, {"density": np.nan}, ValueError, "density .* got nan"),
        (datasets.make_planted, {"background": -1}, ValueError, "background .* got -1"),
        (datasets.make_planted, {"background": np.inf}, ValueError, "background .* got inf"),
        (datasets.make_planted, {"noise": "cauchy"}, ValueError, "'poisson', 'none'; got 'cauchy'"),
        (datasets.make_binary, {"n_columns": -1}, ValueError, "n_columns .* got -1"),
        (datasets.make_binary, {"p": 1.5}, ValueError, "p must be a probability .* got 1.5"),
    ],
)
def test_makers_say_what_is_wrong(make, parameters, error, message):
    with pytest.raises(error, match=message):
        make(**parameters)


# --- reading archives -----------------------------------------------------------------------


def tar_bytes(*members, mode="w:gz"):
    """A tar file of (TarInfo or name, content) pairs."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for info, content in members:
            if isinstance(info, str):
                info = tarfile.TarInfo(info)
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zip_bytes(*members):
    """A zip file of (ZipInfo or name, content) pairs."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, content in members:
            archive.writestr(info, content)
    return buffer.getvalue()


def tar_special(kind, name="box/odd"):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return info, b""


def zip_link():
    info = zipfile.ZipInfo("box/odd")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info, b"/etc/passwd"


GOOD = ("box/file.txt", CONTENT)
GOOD_TAR, GOOD_ZIP = tar_bytes(GOOD), zip_bytes(GOOD)


@pytest.fixture
def read(tmp_path):
    def read(name, content):
        path = tmp_path / name
        path.write_bytes(content)
        try:
            return read_members(path, WANTED)
        finally:
            assert os.listdir(tmp_path) == [name], "reading writes nothing"

    return read


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tgz", GOOD_TAR),
        ("a.tgz", tar_bytes(GOOD, mode="w")),
        ("a.tgz", tar_bytes(("./box/file.txt", CONTENT), ("box/._file.txt", b"x"))),
        ("a.tgz", tar_bytes(tar_special(tarfile.DIRTYPE, "box"), GOOD)),
        ("a.zip", GOOD_ZIP),
        ("a.zip", zip_bytes(("box/", b""), GOOD, ("box/other", b"x"))),
    ],
)
def test_reads_the_files_wanted(read, name, content):
    assert read(name, content) == {"box/file.txt": CONTENT}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tgz", tar_bytes(GOOD, ("../evil", b"x")), "'../evil', which leads out"),
        ("a.tgz", tar_bytes(GOOD, ("/evil", b"x")), "'/evil', which leads out"),
        ("a.tgz", tar_bytes(GOOD, ("box\\..\\..\\evil", b"x")), "leads out"),
        ("a.tgz", tar_bytes(GOOD, tar_special(tarfile.SYMTYPE)), "'box/odd', which is a link"),
        ("a.tgz", tar_bytes(GOOD, tar_special(tarfile.LNKTYPE)), "is a link or a device"),
        ("a.tgz", tar_bytes(GOOD, tar_special(tarfile.CHRTYPE)), "is a link or a device"),
        ("a.tgz", tar_bytes(tar_special(tarfile.SYMTYPE, "box/file.txt")), "is a link"),
        ("a.tgz", tar_bytes(("box/other", b"x")), "no file box/file.txt"),
        ("a.tgz", b"<!DOCTYPE html><p>Sorry", "not an archive .23 bytes, beginning b'<!DOCTYPE"),
        ("a.tgz", b"", "not an archive .0 bytes"),
        ("a.tgz", GOOD_ZIP, "not an archive"),
        ("a.zip", zip_bytes(GOOD, ("../evil", b"x")), "'../evil', which leads out"),
        ("a.zip", zip_bytes(GOOD, ("/evil", b"x")), "leads out"),
        ("a.zip", zip_bytes(GOOD, zip_link()), "is a link"),
        ("a.zip", zip_bytes(("box/other", b"x")), "no file box/file.txt"),
        ("a.zip", GOOD_TAR, "not an archive"),
    ],
)
def test_refuses_what_is_unsafe_or_not_there(read, name, content, message):
    with pytest.raises(BadArchiveError, match=message):
        read(name, content)


def sparse_tar():
    """A tar file whose header claims a terabyte: GNU tar's sparse format."""
    info = tarfile.TarInfo("box/file.txt")
    info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.size": str(10**12)}
    return tar_bytes((info, b""))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tgz", tar_bytes(("box/zeros", bytes(10**6)), GOOD)),
        ("a.tgz", tar_bytes(("x" * 10**6, b""))),
        ("a.tgz", sparse_tar()),
        ("a.zip", zip_bytes(("box/zeros", bytes(10**6)), GOOD)),
    ],
    ids=["zeros", "long name", "sparse", "zip"],
)
def test_refuses_what_unpacks_to_too_much(read, monkeypatch, name, content):
    monkeypatch.setattr(_archives, "MAX_BYTES", 10**5)
    assert len(content) < 10**4
    with pytest.raises(BadArchiveError, match="beyond the limit of 100000 bytes"):
        read(name, content)


@pytest.mark.parametrize(("name", "content"), [("a.tgz", GOOD_TAR), ("a.zip", GOOD_ZIP)])
def test_refuses_an_archive_cut_anywhere(read, name, content):
    for length in range(len(content)):
        with pytest.raises(BadArchiveError):
            read(name, content[:length])


@pytest.mark.parametrize("name", ["a.tgz", "a.zip"])
@settings(max_examples=300, deadline=None)
@given(
    edits=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_damage_is_named_or_harmless(tmp_path_factory, name, edits):
    content = bytearray(tar_bytes(GOOD, mode="w") if name == "a.tgz" else GOOD_ZIP)
    for place, value in edits:
        content[place % min(len(content), 700)] = value
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_bytes(content)
    with suppress(BadArchiveError):
        read_members(path, WANTED)


# --- where archives come from ---------------------------------------------------------------


class Publisher:
    """A web server on this machine that sends what it is told to."""

    def __init__(self):
        self.body, self.status, self.cut, self.requests = GOOD_TAR, 200, 0, 0
        publisher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                publisher.requests += 1
                self.send_response(publisher.status)
                self.send_header("Content-Length", str(len(publisher.body)))
                self.end_headers()
                self.wfile.write(publisher.body[: len(publisher.body) - publisher.cut])

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def archive(self):
        return Archive(f"http://127.0.0.1:{self.server.server_port}/data/box.tgz")


@pytest.fixture
def publisher():
    publisher = Publisher()
    yield publisher
    publisher.server.shutdown()
    publisher.server.server_close()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: cache)
    return cache


def parse(members):
    if members["box/file.txt"] != CONTENT:
        raise BadArchiveError("the words are wrong")
    return "parsed"


def test_downloads_once(publisher, cache):
    assert [publisher.archive.load(WANTED, parse) for _ in range(2)] == ["parsed"] * 2
    assert publisher.requests == 1
    assert [path.name for path in cache.iterdir()] == ["box.tgz"]


def cut_short(publisher):
    publisher.cut = 10


def web_page(publisher):
    publisher.body = b"<html>Moved</html>"


def other_content(publisher):
    publisher.body = tar_bytes(("box/file.txt", b"other"))


def not_found(publisher):
    publisher.status = 404


@pytest.mark.parametrize(
    ("trouble", "error", "message"),
    [
        (cut_short, OSError, "cannot download http.*box.tgz.*Nothing was kept"),
        (web_page, BadArchiveError, "not usable: it is cut short or not an archive .*<html"),
        (other_content, BadArchiveError, "not usable: the words are wrong. It was not kept"),
        (not_found, OSError, "404"),
    ],
)
def test_a_failed_download_leaves_nothing_behind(publisher, cache, trouble, error, message):
    trouble(publisher)
    with pytest.raises(error, match=message) as caught:
        publisher.archive.load(WANTED, parse)
    assert "set DIBPNMF_DATA to that folder" in str(caught.value)
    assert list(cache.iterdir()) == []


def test_an_interrupted_download_leaves_nothing_behind(cache, monkeypatch):
    def interrupted(self, url, output_file, *_):
        with open(output_file, "wb") as stream:
            stream.write(GOOD_TAR[:20])
        raise KeyboardInterrupt

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Archive("http://127.0.0.1/box.tgz").load(WANTED, parse)
    assert list(cache.iterdir()) == []


def test_a_cached_copy_gone_bad_is_fetched_again(publisher, cache):
    cache.mkdir()
    (cache / "box.tgz").write_bytes(GOOD_TAR[:50])
    assert publisher.archive.load(WANTED, parse) == "parsed"
    assert (cache / "box.tgz").read_bytes() == GOOD_TAR


def test_no_connection_says_what_to_do(publisher, cache):
    archive = publisher.archive
    publisher.server.server_close()
    with pytest.raises(OSError, match="Check the connection and try again, or save the file as"):
        archive.load(WANTED, parse)


def test_a_cache_that_cannot_be_written(publisher, cache):
    cache.write_bytes(b"a file where the folder should be")
    with pytest.raises(OSError, match=r"cannot download .* to .*cache"):
        publisher.archive.load(WANTED, parse)


def test_a_folder_of_archives_is_used_instead(publisher, cache, tmp_path, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"has no file box.tgz; put http.* there, or unset"):
        publisher.archive.load(WANTED, parse)
    (tmp_path / "box.tgz").write_bytes(GOOD_TAR)
    assert publisher.archive.load(WANTED, parse) == "parsed"
    assert publisher.requests == 0
    assert not cache.exists()


def test_a_bad_archive_in_the_folder_is_named_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    (tmp_path / "box.tgz").write_bytes(b"junk")
    with pytest.raises(BadArchiveError, match=r"box.tgz: it is cut short .* replace it by a fresh"):
        Archive("http://127.0.0.1/box.tgz").load(WANTED, parse)
    assert (tmp_path / "box.tgz").exists()


# --- Cora and CiteSeer ----------------------------------------------------------------------

TINY = _documents._Corpus("tiny", n_documents=3, n_words=4, n_ones=5, n_classes=2)
TINY_LINES = [b"p7\t0\t1\t1\t0\tB", b"p7\t1\t0\t0\t1\tA", b"x y\t0\t0\t0\t1\tB"]


def parse_tiny(lines, end=b"\n"):
    return _documents._parse(TINY, {TINY.member: b"".join(line + end for line in lines)})


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n"])
def test_documents_are_read_line_by_line(end):
    corpus = parse_tiny(TINY_LINES, end)
    expected = [[0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 0, 1]]
    np.testing.assert_array_equal(corpus.data.toarray(), expected)
    assert list(corpus.target_names) == ["A", "B"]
    assert list(corpus.target) == [1, 0, 1]
    assert list(corpus.document_ids) == ["p7", "p7", "x y"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (TINY_LINES[:2], "tiny.content has 2 documents where 3 are expected"),
        ([*TINY_LINES[:2], b"z\t0\t0\t0\t0\tB"], "has 4 ones where 5"),
        ([line[:-1] + b"B" for line in TINY_LINES], "has 1 classes where 2"),
        ([*TINY_LINES[:2], b"z\t0\t0\t2\t1\tB"], "line 3 of tiny/tiny.content is not"),
        ([TINY_LINES[0], b"z\t0\t0\t1\tB", TINY_LINES[2]], "line 2"),
        ([b"no tabs", *TINY_LINES[1:]], "line 1"),
        ([b"z\t0 1 1 0\tB", *TINY_LINES[1:]], "line 1"),
    ],
)
def test_documents_not_as_published_are_refused(lines, message):
    with pytest.raises(BadArchiveError, match=message):
        parse_tiny(lines)


# --- MovieLens ------------------------------------------------------------------------------


def table(ratings):
    return "".join(f"{u}\t{i}\t{r}\t0\n" for u, i, r in ratings).encode()


@pytest.fixture(scope="module")
def movielens_files():
    """Made-up ratings in the layout of the real ones."""
    rng = np.random.default_rng(0)
    cells = rng.choice(943 * 1682, size=100_000, replace=False)
    ratings = np.column_stack([cells // 1682 + 1, cells % 1682 + 1, rng.integers(1, 6, 100_000)])
    items = "".join(f"{i}|Misérables {i}||\n" for i in range(1, 1683))
    return {
        "ml-100k/u.data": table(ratings),
        "ml-100k/u2.base": table(ratings[20_000:]),
        "ml-100k/u2.test": table(ratings[:20_000]),
        "ml-100k/u.user": "".join(f"{u}|30|F|other|0\n" for u in range(1, 944)).encode(),
        "ml-100k/u.item": items.encode("latin-1"),
    }


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """Write MovieLens files into the folder that the loader reads."""
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))

    def offer(files):
        (tmp_path / "ml-100k.zip").write_bytes(zip_bytes(*files.items()))

    return offer


def test_movielens_folds(movielens_files, offer):
    offer(movielens_files)
    whole, split = datasets.fetch_movielens_100k(), datasets.fetch_movielens_100k(fold=2)
    assert whole.test is None
    assert len(split.train.values) == 80_000
    assert len(split.test.values) == 20_000
    joined = split.train.to_csr() + split.test.to_csr()
    assert joined.shape == whole.shape == (943, 1682)
    assert (joined != whole.train.to_csr()).nnz == 0
    rows, cols, values = split.test
    first = movielens_files["ml-100k/u2.test"].split(b"\n")[0].split()
    assert [rows[0] + 1, cols[0] + 1, values[0]] == [int(field) for field in first[:3]]
    assert whole.item_names[0] == "Misérables 1"
    assert list(whole.user_names[:2]) == ["1", "2"]


@pytest.mark.parametrize(
    ("fold", "error", "message"),
    [
        (0, ValueError, "fold must be at least 1; got 0"),
        (6, ValueError, "fold must be None or an integer from 1 to 5; got 6"),
        ("1", TypeError, "fold must be an integer of at least 1; got '1'"),
    ],
)
def test_movielens_wrong_fold(fold, error, message):
    with pytest.raises(error, match=message):
        datasets.fetch_movielens_100k(fold)


def without_last_line(content):
    return content.rstrip(b"\n").rpartition(b"\n")[0]


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("u2.base", without_last_line, r"u2.base is a table of shape \(79999, 4\)"),
        ("u2.test", lambda content: b"a\tb\tc\td\n", "u2.test is not a table of integers"),
        ("u2.test", lambda content: b"", r"u2.test is a table of shape \(0,"),
        ("u2.test", lambda content: b"944\t1\t1\t0\n" * 20_000, "a user outside 1 to 943"),
        ("u2.test", lambda content: b"1\t0\t1\t0\n" * 20_000, "an? item outside 1 to 1682"),
        ("u2.test", lambda content: b"1\t1\t6\t0\n" * 20_000, "a rating outside 1 to 5"),
        ("u2.test", lambda content: b"1\t1\t1\t0\n" * 20_000, "cells more than once"),
        ("u.user", without_last_line, "u.user has 942 lines where the identifiers 1 to 943"),
        ("u.item", lambda content: b"2" + content[1:], "u.item has 1682 lines .* in order"),
    ],
)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_movielens_not_as_published_is_refused(movielens_files, name, damage, message):
    files = dict(movielens_files)
    path = f"ml-100k/{name}"
    files[path] = damage(files[path])
    sizes = {"ml-100k/u2.base": 80_000, "ml-100k/u2.test": 20_000}
    with pytest.raises(BadArchiveError, match=message):
        _movielens._parse(sizes, files)


# --- the real archives ----------------------------------------------------------------------


def real(filename):
    folder = os.environ.get(DATA_VARIABLE)
    absent = not (folder and os.path.isfile(os.path.join(folder, filename)))
    return pytest.mark.skipif(absent, reason=f"{DATA_VARIABLE} names no folder with {filename}")


@pytest.mark.parametrize(
    ("fetch", "shape", "ones", "classes"),
    [
        pytest.param(datasets.fetch_cora, (2708, 1433), 49_216, 7, marks=real("cora.tgz")),
        pytest.param(datasets.fetch_citeseer, (3312, 3703), 105_165, 6, marks=real("citeseer.tgz")),
    ],
)
def test_real_documents(fetch, shape, ones, classes):
    corpus = fetch()
    assert corpus.data.shape == shape
    assert corpus.data.nnz == corpus.data.sum() == ones
    assert corpus.target.shape == (shape[0],)
    assert len(corpus.target_names) == classes == len(np.unique(corpus.target))


@real("ml-100k.zip")
def test_real_ratings():
    whole = datasets.fetch_movielens_100k()
    assert whole.train.to_csr().nnz == 100_000
    assert whole.item_names[0] == "Toy Story (1995)"
    folds = [datasets.fetch_movielens_100k(fold) for fold in range(1, 6)]
    together = sum(fold.test.to_csr() for fold in folds)
    assert (together != whole.train.to_csr()).nnz == 0
    for one, other in pairwise(folds):
        assert not np.array_equal(one.test.rows, other.test.rows)

"""Signed controllers: with a key, one that is not signed or was changed in any byte is refused."""

import base64
import hashlib
import json
import random
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from safetensors.numpy import load
from typer.testing import CliRunner

import nopg
from nopg import deploy
from nopg.bundles import new_key_pair, open_bundle, sign_bundle
from nopg.bundles._bundle import SIGNATURE
from nopg.bundles._keys import is_signature, signature_of
from nopg.bundles._writing import write_bundle, write_members
from nopg.cli._app import app
from nopg.errors import ArgumentError, BundleError, MissingExtraError, SignatureError

SAVED = Path(__file__).parent / "formats" / "2" / "controller"
# RFC 8032, section 7.1, test 2: private key, public key, message and signature.
SECRET = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
SIGNED = bytes.fromhex(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("nopg.bundles._keys.import_module", missing)
    with pytest.raises(MissingExtraError, match=r"cryptography.*pip install 'nopg\[sign\]'"):
        new_key_pair(tmp_path / "key")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    pytest.importorskip("cryptography")
    return new_key_pair(tmp_path / "plant.pem")


@pytest.fixture
def folder(tmp_path: Path, keys: tuple[Path, Path]) -> Path:
    path = Path(shutil.copytree(SAVED, tmp_path / "tank"))
    sign_bundle(path, keys[0])
    return path


def as_zip(folder: Path, key: Path) -> Path:
    """Return the same controller as a signed zip."""
    bundle, path = open_bundle(folder), folder.with_suffix(".zip")
    write_members(path, {"manifest.json": bundle.content, **bundle.members()})
    sign_bundle(path, key)
    return path


def test_a_signed_controller_acts_as_before(folder: Path, keys: tuple[Path, Path]) -> None:
    expected = deploy.load(SAVED)([1.0, 2.0])
    for path in (folder, as_zip(folder, keys[0])):
        assert (deploy.load(path, key=keys[1])([1.0, 2.0]) == expected).all()
        assert (deploy.load(path)([1.0, 2.0]) == expected).all()
        assert open_bundle(path, key=keys[1]).sha256 == open_bundle(SAVED).sha256
    assert not list(folder.parent.glob(".*"))


def test_every_changed_byte_of_a_signed_folder_is_refused(folder: Path, keys: tuple[Path, Path]) -> None:
    draw = random.Random(0)
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        for _ in range(20):
            changed = bytearray(content)
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
            file.write_bytes(changed)
            with pytest.raises(SignatureError):
                deploy.load(folder, key=keys[1])
        file.write_bytes(content)
    deploy.load(folder, key=keys[1])


def test_every_changed_byte_of_a_signed_zip_is_refused(folder: Path, keys: tuple[Path, Path]) -> None:
    path, draw = as_zip(folder, keys[0]), random.Random(0)
    content = path.read_bytes()
    for _ in range(300):
        changed = bytearray(content)
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        with pytest.raises(BundleError):
            deploy.load(path, key=keys[1])
    path.write_bytes(content + b"\0")
    with pytest.raises(BundleError):
        deploy.load(path, key=keys[1])


@pytest.mark.parametrize("name", ["notes.txt", ".hidden"])
def test_a_file_beside_the_signed_ones_is_refused(folder: Path, keys: tuple[Path, Path], name: str) -> None:
    (folder / name).write_text("more")
    with pytest.raises(SignatureError, match=f"{name} is not listed"):
        open_bundle(folder, key=keys[1])
    with pytest.raises(BundleError, match=f"{name} is not listed"):
        sign_bundle(folder, keys[0])


def test_a_controller_that_is_not_signed_is_refused(keys: tuple[Path, Path]) -> None:
    with pytest.raises(SignatureError, match="is not signed"):
        deploy.load(SAVED, key=keys[1])
    with pytest.raises(SignatureError, match="is not signed"):
        nopg.load(SAVED, key=keys[1])


def test_the_signature_of_another_key_is_refused(
    folder: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    private, public = new_key_pair(tmp_path / "other.pem")
    with pytest.raises(SignatureError, match="signed with another key"):
        deploy.load(folder, key=public)
    sign_bundle(folder, private)
    deploy.load(folder, key=public)
    with pytest.raises(SignatureError, match="signed with another key"):
        deploy.load(folder, key=keys[1])


def test_a_forger_who_writes_hashes_that_fit_is_refused(folder: Path, keys: tuple[Path, Path]) -> None:
    bundle = open_bundle(folder)
    document = json.loads((folder / "controller.json").read_text())
    document["schema"]["bounds"] = {name: [-1e9, 1e9] for name in document["schema"]["actions"]}
    members = {name: (folder / name).read_bytes() for name in bundle.members()}
    documents = {"controller.json": document, "result.json": json.loads(members["result.json"])}
    shutil.copy(folder / SIGNATURE, folder.parent / "kept")
    arrays = {name: load(content) for name, content in members.items() if name.endswith(".safetensors")}
    write_bundle(folder, documents=documents, arrays=arrays, about={}, overwrite=True)
    shutil.copy(folder.parent / "kept", folder / SIGNATURE)
    deploy.load(folder)
    with pytest.raises(SignatureError, match="does not fit the manifest"):
        deploy.load(folder, key=keys[1])


def test_a_changed_controller_is_not_signed(folder: Path, keys: tuple[Path, Path]) -> None:
    (folder / "controller.json").write_text("{}")
    before = (folder / SIGNATURE).read_bytes()
    with pytest.raises(BundleError, match="is not what was saved"):
        sign_bundle(folder, keys[0])
    assert (folder / SIGNATURE).read_bytes() == before


def test_keys_are_private_and_never_replaced(keys: tuple[Path, Path]) -> None:
    assert stat.S_IMODE(keys[0].stat().st_mode) == 0o600
    before = keys[0].read_bytes()
    with pytest.raises(ArgumentError, match="exists already"):
        new_key_pair(keys[0])
    keys[0].unlink()
    with pytest.raises(ArgumentError, match=r"pub exists already"):
        new_key_pair(keys[0])
    keys[0].write_bytes(before)


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PUBLIC KEY-----\n", b"\xff" * 100_000])
def test_what_is_no_key_is_refused(folder: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd").write_bytes(content)
    with pytest.raises(ArgumentError, match="is no public Ed25519 key"):
        deploy.load(folder, key=tmp_path / "odd")
    with pytest.raises(ArgumentError, match="is no private Ed25519 key"):
        sign_bundle(folder, tmp_path / "odd")


def test_the_wrong_half_of_a_pair_and_a_missing_key_are_refused(
    folder: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match="is no public Ed25519 key"):
        deploy.load(folder, key=keys[0])
    with pytest.raises(ArgumentError, match="is no private Ed25519 key"):
        sign_bundle(folder, keys[1])
    with pytest.raises(ArgumentError, match="cannot be read"):
        deploy.load(folder, key=tmp_path / "nowhere")


def test_signatures_are_those_of_the_standard(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    private, public = tmp_path / "private", tmp_path / "public"
    # RFC 8410: the algorithm, then the bytes of the key.
    pem(private, "PRIVATE", bytes.fromhex("302e020100300506032b657004220420") + SECRET)
    pem(public, "PUBLIC", bytes.fromhex("302a300506032b6570032100") + PUBLIC)
    assert signature_of(b"\x72", private) == SIGNED
    assert is_signature(SIGNED, b"\x72", public)
    assert not is_signature(SIGNED, b"\x73", public)


def pem(path: Path, kind: str, content: bytes) -> None:
    text = base64.b64encode(content).decode()
    path.write_text(f"-----BEGIN {kind} KEY-----\n{text}\n-----END {kind} KEY-----\n")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is missing")
def test_openssl_verifies_the_same_signature(folder: Path, keys: tuple[Path, Path]) -> None:
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(keys[1]), "-rawin"]
    command += ["-in", str(folder / "manifest.json"), "-sigfile", str(folder / SIGNATURE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_commands_make_keys_sign_and_verify(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    run, path = CliRunner(), Path(shutil.copytree(SAVED, tmp_path / "tank"))
    key, public = str(tmp_path / "plant.pem"), str(tmp_path / "plant.pem.pub")
    assert run.invoke(app, ["sign", "--new-key", key]).exit_code == 0
    assert run.invoke(app, ["verify", str(path), "--key", public]).exit_code == 1
    signed = run.invoke(app, ["sign", str(path), "--key", key, "--json"])
    assert json.loads(signed.stdout)["sha256"] == open_bundle(path).sha256
    assert run.invoke(app, ["verify", str(path), "--key", public]).exit_code == 0
    (path / "result.json").write_text("{}")
    refused = run.invoke(app, ["verify", str(path), "--key", public])
    assert refused.exit_code == 1
    assert "was changed after it was signed" in refused.stderr
    for wrong in ([], [str(path)], ["--key", key], [str(path), "--key", key, "--new-key", key]):
        assert run.invoke(app, ["sign", *wrong]).exit_code == 1


def test_exports_name_the_saved_controller_they_come_from(tmp_path: Path) -> None:
    controller = deploy.load(SAVED)
    guard = deploy.GuardedController(controller)
    header = deploy.to_c(guard, tmp_path / "tank.c").header.read_text()
    assert hashlib.sha256((SAVED / "manifest.json").read_bytes()).hexdigest() in header

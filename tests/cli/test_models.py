"""`panto models`, and the local model when there is nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.cli.command import CANARY, Command


def test_aliases_are_listed_with_where_they_come_from_and_the_default_has_a_star(panto: Command) -> None:
    panto.config.write_text(
        'default = "fast"\n[models.fast]\nprovider = "openai"\nmodel = "m-1"\n'
        '[models.far]\nprovider = "mistral"\nmodel = "m-2"\n'
    )
    done = panto.run("models")
    lines = {line.lstrip("* ").split()[0]: line for line in done.stdout.splitlines()}
    assert lines["fast"].startswith("*")
    assert lines["fast"].endswith("config.toml, line 2")
    assert lines["far"].endswith("no key: MISTRAL_API_KEY is not set")
    assert lines["openai"].endswith("OPENAI_API_KEY")
    assert lines["local"].endswith("built in")
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_program_gets_the_same_and_no_key(panto: Command) -> None:
    done = panto.run("models", "--json")
    of_name = {line["alias"]: line for line in json.loads(done.stdout)}
    assert of_name["openai"]["default"] is True
    assert of_name["openai"]["base_url"] == panto.env["OPENAI_BASE_URL"]
    assert of_name["openai"]["key_env"] == "OPENAI_API_KEY"
    assert of_name["local"]["ready"] is True
    assert CANARY not in done.stdout


def test_local_install_is_the_librarys_and_tells_each_step(panto: Command) -> None:
    code = (
        "import panto.ext.local as local\n"
        "local.install = lambda say: say('installing the engine')\n"
        "import panto_cli; panto_cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "local", "install"],
        env=panto.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "installing the engine\n", 0)


def test_a_missing_local_model_names_the_command_that_mends_it(panto: Command) -> None:
    code = "import sys; sys.modules['xllamacpp'] = None; import panto_cli; panto_cli.main()"
    env = {name: value for name, value in panto.env.items() if not name.startswith("OPENAI")}
    done = subprocess.run(
        [sys.executable, "-c", code, "q"],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "panto local install" in done.stderr
    assert "Traceback" not in done.stderr

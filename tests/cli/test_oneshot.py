"""One question at pipes and files: what is on each stream, what the status is, what is saved."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command import CANARY, Command
from tests.cli.server import Cut, Fail, Finish, Gate, Server, Think

import panto as library

unix = pytest.mark.skipif(sys.platform == "win32", reason="signals and closed pipes of Unix")


def test_the_answer_alone_is_on_standard_output_and_ends_with_a_newline(panto: Command, server: Server) -> None:
    server.script([Think("hm"), "Hello, ", "world"])
    done = panto.run("Say hello")
    assert (done.stdout, done.stderr, done.returncode) == ("Hello, world\n", "", 0)
    assert server.requests[0].said == [("user", "Say hello")]


def test_a_newline_of_the_models_own_is_not_doubled(panto: Command, server: Server) -> None:
    server.script(["one\n"])
    assert panto.run("q").stdout == "one\n"


def test_words_without_quotes_are_one_question(panto: Command, server: Server) -> None:
    panto.run("what", "is", "this")
    assert server.requests[0].said == [("user", "what is this")]


def test_piped_text_is_the_question(panto: Command, server: Server) -> None:
    assert panto.run(input="What is π?\n").returncode == 0
    assert server.requests[0].said == [("user", "What is π?\n")]


def test_piped_text_follows_the_question_after_a_blank_line(panto: Command, server: Server) -> None:
    panto.run("Summarise", input="line 1\nline 2\n")
    assert server.requests[0].said == [("user", "Summarise\n\nline 1\nline 2\n")]


def test_bytes_that_are_no_utf8_and_a_byte_order_mark_do_no_harm(panto: Command, server: Server) -> None:
    assert panto.run(input=b"\xef\xbb\xbfa\xffb").returncode == 0
    assert server.requests[0].said == [("user", "a\ufffdb")]


@pytest.mark.parametrize("args", [(), ("",), ("  ",)])
def test_te_02_empty_input_is_a_clear_error_and_nothing_is_sent(
    panto: Command, server: Server, args: tuple[str, ...]
) -> None:
    done = panto.run(*args)
    assert done.returncode == 2
    assert "nothing to ask" in done.stderr
    assert "Traceback" not in done.stderr
    assert (done.stdout, server.requests) == ("", [])


@unix
def test_te_02_a_question_without_any_standard_input_is_answered(panto: Command) -> None:
    closed = ["sh", "-c", 'exec "$0" "$@" <&-', *panto.argv("q")]
    done = subprocess.run(closed, env=panto.env, capture_output=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (b"Hello, world\n", b"", 0)


@pytest.mark.parametrize("term", [None, "", "dumb"])
def test_te_02_without_a_terminal_type_there_are_no_escape_codes(panto: Command, term: str | None) -> None:
    panto.env.pop("TERM")
    done = panto.run("q", env={} if term is None else {"TERM": term})
    assert done.stdout == "Hello, world\n"
    assert "\x1b" not in done.stdout + done.stderr


def test_text_appears_as_it_streams(panto: Command, server: Server) -> None:
    gate = Gate()
    server.script(["first", gate, " second"])
    with panto.start("q") as process:
        assert process.stdout is not None
        assert process.stdout.read(5) == b"first"  # while the rest is not even sent
        gate.open()
        assert process.stdout.read() == b" second\n"
    assert process.returncode == 0


@unix
def test_te_01_a_reader_who_goes_away_ends_it_quietly_and_the_session_is_saved(panto: Command, server: Server) -> None:
    gate = Gate()
    server.script(["first", gate, *["x" * 1000] * 100])
    with panto.start("the question") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(5) == b"first"
        process.stdout.close()
        gate.open()
        assert process.stderr.read() == b""
    assert process.returncode == 0
    assert "the question" in panto.saved()
    assert "first" in panto.saved()
    assert '"aborted"' in panto.saved()


@unix
def test_te_01_a_reader_who_never_reads_ends_it_quietly_too(panto: Command) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        panto.argv("q"), env=panto.env, stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "Hello" in panto.saved()


@unix
def test_te_01_a_long_list_may_be_cut_short(panto: Command) -> None:
    store = library.FileSystemJSONLStore(panto.store, fsync=False)
    talk = library.Conversation()
    talk.add_assistant_message("x" * 200)
    for _ in range(500):
        store.create().append([library.PersistentMessage(talk.messages[0], None, None, talk)])
    command = " ".join(map(shlex.quote, panto.argv("sessions")))
    for tail in ("head -n 1", "true"):
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command} | {tail}"],
            env={**panto.env, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert len(done.stdout.splitlines()) <= 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize("args", [("the question",), ("the question", "--json"), ("models",), ("--help",), ("-V",)])
def test_a_full_disk_behind_standard_output_is_told_once(panto: Command, args: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            panto.argv(*args), env=panto.env, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.count(b"No space left on device") == 1
    assert len(done.stderr.splitlines()) == 1
    assert b"Traceback" not in done.stderr
    if args == ("the question",):
        assert "the question" in panto.saved()


@unix
def test_an_argument_that_is_no_utf8_is_asked_and_saved(panto: Command, server: Server) -> None:
    done = subprocess.run(
        [*panto.argv(), b"caf\xe9"], env=panto.env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == (b"Hello, world\n", b"", 0)
    assert server.requests[0].said == [("user", "caf\ufffd")]
    assert "caf\ufffd" in panto.saved()


@unix
@pytest.mark.parametrize("args", [("--help",), ("--version",), ("models",), ("models", "--json"), ("sessions",)])
def test_te_01_no_command_complains_about_a_closed_pipe(panto: Command, args: tuple[str, ...]) -> None:
    panto.run("q")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        panto.argv(*args), env=panto.env, stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@unix
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_ends_the_turn_cleanly_and_saves_it(
    panto: Command, server: Server, number: signal.Signals, status: int
) -> None:
    gate = Gate()
    server.script(["the beginning", gate, "the end"])
    with panto.start("q") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(13) == b"the beginning"
        process.send_signal(number)
        assert process.stdout.read() == b"\n"
        assert process.stderr.read() == b""
    assert process.returncode == status
    assert "the beginning" in panto.saved()
    assert "the end" not in panto.saved()


def test_an_unreachable_host_is_named_with_what_to_do(panto: Command) -> None:
    done = panto.run("q", env={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    assert done.returncode == 1
    assert "127.0.0.1" in done.stderr
    assert "base_url" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_refused_key_names_its_variable_and_never_shows_it(panto: Command, server: Server) -> None:
    server.script([Fail(401, f"Incorrect API key provided: {CANARY}")])
    done = panto.run("q")
    assert done.returncode == 1
    assert "Incorrect API key provided" in done.stderr
    assert "OPENAI_API_KEY" in done.stderr
    assert CANARY not in done.stderr


def test_an_answer_cut_at_its_limit_has_a_status_of_its_own(panto: Command, server: Server) -> None:
    server.script(["half an ans", Finish("length")])
    done = panto.run("q")
    assert (done.stdout, done.returncode) == ("half an ans\n", 3)


def test_no_text_at_all_is_not_taken_for_an_answer(panto: Command, server: Server) -> None:
    server.script([Think("hm"), Finish("stop")])
    done = panto.run("q")
    assert (done.stdout, done.returncode) == ("", 3)
    assert "no text" in done.stderr


def test_what_a_pipe_has_already_is_never_said_twice(panto: Command, server: Server) -> None:
    panto.config.write_text("[retry]\ninitial_delay = 0.0\n")
    server.script(["one two", Cut()], ["one two three"])
    done = panto.run("q")
    assert (done.stdout, done.returncode) == ("one two\n", 1)
    assert "not whole" in done.stderr
    assert len(server.requests) == 1


def test_a_failure_before_the_first_word_is_tried_again(panto: Command, server: Server) -> None:
    panto.config.write_text("[retry]\ninitial_delay = 0.0\n")
    server.script([Fail(500, "a hiccup")], ["well"])
    done = panto.run("q")
    assert (done.stdout, done.stderr, done.returncode) == ("well\n", "", 0)


def test_a_system_prompt_goes_with_the_question(panto: Command, server: Server) -> None:
    panto.run("q", "--system", "Be brief.")
    assert server.requests[0].said[0][1] == "Be brief."


def test_without_a_session_nothing_is_written(panto: Command) -> None:
    assert panto.run("q", "--no-session").returncode == 0
    assert not panto.store.exists()


@unix
def test_sessions_are_for_their_owner_only(panto: Command) -> None:
    previous = os.umask(0)
    try:
        panto.run("q")
    finally:
        os.umask(previous)
    assert panto.store.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in panto.store.iterdir() if path.suffix == ".jsonl"] == [0o600]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a folder where nobody can make one, not even root")
def test_a_store_that_cannot_write_does_not_cost_the_answer(panto: Command) -> None:
    done = panto.run("q", "--store", "/proc/panto/sessions")
    assert (done.stdout, done.returncode) == ("Hello, world\n", 1)
    assert "not saved" in done.stderr
    assert "/proc/panto" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_store_that_can_be_none_is_told_before_anything_is_sent(
    panto: Command, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = panto.run("q", "--store", str(tmp_path / "file" / "below"))
    assert done.returncode == 1
    assert str(tmp_path / "file" / "below") in done.stderr
    assert server.requests == []


def test_se_09_output_is_utf8_whatever_the_locale(panto: Command, server: Server) -> None:
    server.script(["🦊 č 日本"])
    panto.python = (sys.executable, "-X", "utf8=0", "-X", "warn_default_encoding")
    done = panto.run("q", env={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"})
    assert (done.stdout, done.stderr, done.returncode) == ("🦊 č 日本\n", "", 0)
    assert panto.run("-c", "q", env={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}).returncode == 0


def test_a_one_shot_runs_without_what_only_unix_has(panto: Command) -> None:
    blocked = "import sys; sys.modules.update(fcntl=None, termios=None, pwd=None); import panto_cli; panto_cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", blocked, "q"],
        env=panto.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == (b"Hello, world\n", b"", 0)


@pytest.mark.parametrize("args", [("--version",), ("-V",), ("--no-session", "--version")])
def test_the_version_is_told_without_a_configuration(panto: Command, args: tuple[str, ...]) -> None:
    done = panto.run(*args)
    assert done.stdout.startswith("panto 0.")
    assert done.returncode == 0


@pytest.mark.parametrize("missing", ["click", "platformdirs", "rich"])
def test_a_missing_extra_is_named_with_the_command_that_mends_it(panto: Command, missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import panto_cli; panto_cli.main()"
    env = {name: value for name, value in panto.env.items() if name != "PANTO_CONFIG"}
    done = subprocess.run(
        [sys.executable, "-c", code, "models"],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
        text=True,
    )
    assert done.returncode == 2
    assert "pip install 'panto[cli]'" in done.stderr
    assert missing in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--jsom", "q"), "--jsom"),
        (("sesions",), "panto sessions"),
        (("-c", "-r", "x", "q"), "-c"),
        (("sessions", "sho"), "sho"),
    ],
)
def test_a_wrong_command_line_is_a_sentence(panto: Command, server: Server, args: tuple[str, ...], words: str) -> None:
    done = panto.run(*args)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert server.requests == []


def test_two_dashes_make_a_commands_name_a_question(panto: Command, server: Server) -> None:
    panto.run("--", "sessions")
    assert server.requests[0].said == [("user", "sessions")]


@pytest.mark.parametrize(
    "args", [("-m", "models"), ("-mmodels",), ("--model=models",), ("--model", "models"), ("-cm", "models")]
)
def test_the_value_of_an_option_is_no_command(panto: Command, server: Server, args: tuple[str, ...]) -> None:
    panto.run("before", "-m", "openai/models")
    panto.run(*args, "sessions of parliament")
    assert server.requests[-1].body["model"] == "models"
    assert server.requests[-1].said[-1] == ("user", "sessions of parliament")


def test_a_fault_of_the_command_itself_is_a_paragraph_and_a_traceback_with_debug(panto: Command) -> None:
    code = (
        "import sys, panto_cli.render as r\n"
        "def show(self, event): raise RuntimeError('a fault')\n"
        "r.TextRenderer.show = show\n"
        "import panto_cli; panto_cli.main()"
    )

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-c", code, *args]
        return subprocess.run(
            argv, env=panto.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
        )

    plain, debug = run("q"), run("q", "--debug")
    assert plain.returncode == debug.returncode == 1
    assert "RuntimeError: a fault" in plain.stderr
    assert "Traceback" not in plain.stderr
    assert "Traceback" in debug.stderr


def test_sc_01_keys_are_in_the_request_and_in_nothing_else(panto: Command, server: Server) -> None:
    token = "CANARY-2-in-a-header"
    panto.config.write_text(
        f'[retry]\nmax_retries = 0\n[providers.openai]\nheaders = {{ X-Token = "{token}" }}\n'
        'headers_env = { X-Other = "OTHER" }\n'
    )
    panto.env["OTHER"] = "CANARY-3-in-a-variable"
    outputs = [panto.run("the question", "--debug"), panto.run("-c", "q", "--json", "--debug")]
    server.script([Fail(400, f"bad: {CANARY} {token} CANARY-3-in-a-variable")])
    outputs += [
        panto.run("q", "--debug"),
        panto.run("q", "--json", "--debug"),
        panto.run("models", "--json", "--debug"),
        panto.run("models"),
        panto.run("sessions", "search", "CANARY", "--debug"),
        panto.run("sessions", "show", "0", "--json", "--debug"),
        panto.run("q", "-m", "nobody", "--debug"),
    ]
    assert [done.returncode for done in outputs[:4]] == [0, 0, 1, 1]
    assert "urllib3" in outputs[0].stderr  # the HTTP library did log
    assert "Traceback" in outputs[2].stderr
    assert "the question" in panto.saved()
    for done in outputs:
        for text in (done.stdout, done.stderr):
            assert "CANARY-" not in text
    assert "CANARY-" not in panto.saved()
    for path in panto.home.rglob("*"):
        if path.is_file() and path != panto.config:
            assert b"CANARY-" not in path.read_bytes()
    headers = server.requests[0].headers
    assert headers["authorization"] == f"Bearer {CANARY}"
    assert (headers["x-token"], headers["x-other"]) == (token, "CANARY-3-in-a-variable")


def test_json_events_are_lines_that_the_library_reads_back(panto: Command, server: Server) -> None:
    import msgspec

    from panto_cli.jsonout import JSONLine, RunStart

    server.script([Think("hm"), "Hello"])
    done = panto.run("q", "--json")
    decoder = msgspec.json.Decoder(JSONLine)
    events = [decoder.decode(line) for line in done.stdout.splitlines()]
    assert isinstance(events[0], RunStart)
    assert (panto.store / f"{events[0].session}.jsonl").is_file()
    assert isinstance(events[-1], library.TurnComplete)
    text = "".join(e.text for e in events if isinstance(e, library.ContentDelta) and e.type == "text")
    assert (text, done.stderr, done.returncode) == ("Hello", "", 0)


def test_a_failed_run_has_a_last_line_that_says_so(panto: Command, server: Server) -> None:
    server.script([Fail(429, "slow down")])
    done = panto.run("q", "--json")
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["event"] == "run_failed"
    assert (last["kind"], last["status"], last["retryable"], last["exit_status"]) == ("rate_limit", 429, True, 1)
    assert "slow down" in last["message"]


def test_a_lone_surrogate_is_an_escape_in_json_and_no_failure_as_text(panto: Command, server: Server) -> None:
    server.script(["a\ud83db"])
    done = panto.run("q", "--json", "--no-session")
    assert done.returncode == 0, done.stderr
    assert all(json.loads(line) for line in done.stdout.splitlines())
    assert panto.run("q", "--no-session").returncode == 0


def test_the_schema_in_the_docs_is_that_of_the_types() -> None:
    from panto_cli.jsonout import schema

    written = Path(__file__).parents[2] / "docs" / "events.schema.json"
    assert json.loads(written.read_text(encoding="utf-8")) == schema(), (
        "run: python -m panto_cli.jsonout > docs/events.schema.json"
    )

"""The public surface: one reviewed list, each name in the docs, and next to nothing imported for it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import panto

DOCS = Path(__file__).parents[1] / "docs"

SURFACE = """
APIStyle Agent Allow AmbiguousSession AnthropicMessagesConfig Ask AsyncAgent AsyncStream BlockComplete BlockStart
Change ChatCompat CompactionConfig CompactionSummaryBlock Config ContextUsage ConfigError ContentBlock
ContentBlockType ContentDelta ContextOverflowError Conversation Deny ErrorKind Event FileSystemJSONLStore Hooks JSON
Limits MediaBlock MediaPart MemoryStore Message MessageComplete MessageRole NullStore OpaqueBlock OpenAIChatConfig
PantoError Pause PersistentMessage Problem ProviderConfig ProviderError ProviderRetry ProviderRetryInfo
ReasoningEffort ResultPart ResultPartStored ResultParts RetryConfig Session SessionBusy SessionError SessionInfo
SessionNotFound SessionStore State StateError StopReason StoreError StoredMediaPart Stream SystemBlock SystemMode
TextPart TextualBlock ThinkingBlock Timeouts Tool ToolCall ToolCallResult ToolContext ToolDecl ToolDetails
ToolDispatchComplete ToolDispatchStart ToolNameError ToolProgress ToolResultBlock ToolSource ToolUseBlock Transport
TurnComplete Usage UserMessage WireIdentity deinit estimate_tokens effective_system_blocks init match
"""


def test_the_surface_is_the_reviewed_list() -> None:
    assert sorted(panto.__all__) == sorted(SURFACE.split())


@pytest.mark.parametrize("name", sorted(panto.__all__))
def test_each_public_name_can_be_had_and_has_its_place_in_the_docs(name: str) -> None:
    assert getattr(panto, name) is getattr(panto, name)
    pages = [page.name for page in DOCS.glob("*.md") if re.search(rf"`(panto\.)?{name}\b", page.read_text("utf-8"))]
    assert pages, f"no page in docs/ tells of `{name}`"


def test_type_checkers_see_the_very_names_that_can_be_had() -> None:
    tree = ast.parse(Path(panto.__file__).read_text("utf-8"))
    seen = {alias.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == set(panto.__all__)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'utils'"):
        _ = panto.utils  # type: ignore[attr-defined]


def test_dir_lists_the_surface() -> None:
    assert set(panto.__all__) <= set(dir(panto))


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after `code`."""
    told = subprocess.run(
        [sys.executable, "-I", "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(told.stdout.split())


def test_importing_panto_loads_no_http_library_no_imaging_and_no_asyncio() -> None:
    heavy = {"urllib3", "aiohttp", "PIL", "asyncio", "httpx2", "ssl", "msgspec", "typing"}
    assert not heavy & loaded_by("import panto")


def test_the_sync_agent_needs_no_http_library_and_no_asyncio_before_its_first_request() -> None:
    heavy = {"urllib3", "aiohttp", "PIL", "asyncio", "httpx2", "ssl"}
    assert not heavy & loaded_by("from panto import Agent, Config, OpenAIChatConfig, NullStore, FileSystemJSONLStore")

"""A machine with accounts of the real Claude Code and the real Codex, whose models are on loopback."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from support import account_homes, claude_cli, codex_cli
from support.estate import Estate

ALLOWED = 'environment_allow = ["ANTHROPIC_BASE_URL", "CLAUDE_CODE_*", "DISABLE_*", "HTTPS_PROXY", "NO_PROXY"]'


class Shop(Estate):
    """An estate whose programs are the real ones, and their models on loopback. Nothing else of the network is reached."""

    def __init__(self, root: Path, url: str, **numbers: int) -> None:
        self.url = url
        kinds = {"claude": claude_cli, "codex": codex_cli}
        super().__init__(root, binaries={kind: kinds[kind].binary() for kind in numbers}, **numbers)
        ambient = claude_cli.environment(root / "person", url) | account_homes.NOWHERE
        names = re.compile("ANTHROPIC_BASE_URL|CLAUDE_CODE_.*|DISABLE_.*|HTTPS_PROXY|NO_PROXY")
        self.more = {name: value for name, value in ambient.items() if names.fullmatch(name)}
        self.more |= {"IS_SANDBOX": "1", "SCRIPTED_KEY": "test-key", "FLEET_PROVIDERS_DEFAULT": next(iter(numbers))}
        self.more |= {f"FLEET_PROVIDER_{kind.upper()}_BINARY": path for kind, path in self.binaries.items()}
        self.edit({f"[providers.{kind}]": ALLOWED for kind in numbers})
        self.ready()

    def login(self, label: str, who: str = "") -> None:
        if label.startswith("claude"):
            account_homes.claude_login(self.home_of(label), who=who or label, token=f"LOGIN-{label}")
            return
        super().login(label, who)
        settings = codex_cli.SETTINGS.format(url=self.url, retries=1)
        kept = (self.home_of(label) / "config.toml").read_text()
        # what fleet owns there is there already, and the program's own settings beside it
        ours = re.sub(r"^\[features\]\nplugins = false\n|^cli_auth.*\n", "", settings, flags=re.M)
        head, _, tables = ours.partition("[analytics]")
        account_homes.private(self.home_of(label) / "config.toml", f"{head}{kept}\n[analytics]{tables}")

    def work(
        self, *lines: str, options: tuple[str, ...] = ("--max", "1"), env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """A run in the background, one worker at a time if nothing else is said."""
        self.json("init")
        text = "\n".join(["[run]", "stagger = 0", "[accounts]", 'pool = "claude-crew"', *lines])
        (self.dir / "config.toml").write_text(f'{text}\n[provider.claude]\nbinary = "{self.binaries["claude"]}"\n')
        child: subprocess.Popen[bytes] = self.start("run", "--force", *options, env=env)
        return child

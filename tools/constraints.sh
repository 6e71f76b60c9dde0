#!/usr/bin/env bash
# Writes constraints.txt anew: the newest versions that pyproject.toml allows, resolved in a fresh environment.
set -euo pipefail
cd "$(dirname "$0")/.."

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
python=.venv/bin/python
[ -x $python ] || python=python3
$python -m venv "$room/venv"
pip() { "$room/venv/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }

# The requirements alone: installing the project itself would compile the engine.
$python - >"$room/requirements.txt" <<'END'
import tomllib

project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"]
wanted = [r for extra in ("router", "oauth", "client", "operator", "upload", "analytics", "console", "dev") for r in extras[extra]]
print("\n".join(r for r in project["dependencies"] + wanted if not r.startswith("waymesh[")))
END
pip install --upgrade pip
pip install -r "$room/requirements.txt"
{
    echo "# Every direct and transitive package of the development environment, one version each."
    echo "# Made by 'make constraints'; 'make setup' and CI install exactly these."
    pip freeze --all | LC_ALL=C sort -f
} >constraints.txt

"""Writes the dashboards: `python -m tools.dashboards`."""

from __future__ import annotations

from tools.dashboards.files import FOLDER, files


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in files().items():
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()

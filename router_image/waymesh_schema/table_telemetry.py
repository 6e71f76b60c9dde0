"""The part of the table about telemetry: the export of records. An extension of Waymesh."""

from __future__ import annotations

from .model import INTEGER, PATH, STRING, configuration, count, reported, setting

TELEMETRY = configuration(
    "telemetry",
    "Export of records to files in a folder, for the analytics job. Link-routed deliveries are counted with their "
    "links, never sampled. PUBLISH records all counters and then publishes the current files at once, instead of after "
    "rotateSeconds.",
    setting("path", PATH, "Folder for the files; nothing is exported without it.", update=True),
    setting("mesh", STRING, "Name of the mesh in the records.", default="mesh", update=True),
    setting(
        "intervalSeconds", INTEGER, "Seconds between records of counters.", default=60, minimum=1, maximum=3600,
        update=True,
    ),
    setting(
        "rotateSeconds", INTEGER, "Seconds after which a file is published, unless its hour ends before.", default=300,
        minimum=1, maximum=3600, update=True,
    ),
    setting(
        "sampleOneIn", INTEGER, "Deliveries of which one is recorded individually; 0: none is.", default=100, minimum=0,
        update=True,
    ),
    setting(
        "samplesPerSecond", INTEGER, "Maximum deliveries recorded a second; at the limit, each one represents more.",
        default=100, minimum=1, update=True,
    ),
    setting(
        "maxMegabytes", INTEGER, "Space for the files of this router; if full, the oldest are deleted.",
        default=512, minimum=1, update=True,
    ),
    count("records", "Records made so far."),
    count("droppedRecords", "Records that were lost for lack of space."),
    reported("lastError", STRING, "Why records cannot be written, empty while they can."),
    operations=("UPDATE", "PUBLISH"),
    singleton=True,
)

"""The part of the table about telemetry: what the router writes down about itself. An extension of Waymesh."""

from __future__ import annotations

from .model import INTEGER, PATH, STRING, configuration, count, reported, setting

TELEMETRY = configuration(
    "telemetry",
    "Export of what the router does, for the analytics job: files of records under a folder. Link-routed deliveries "
    "are counted with their links, never sampled. PUBLISH closes the current files at once, after a last record of all "
    "counters, instead of waiting for rotateSeconds.",
    setting("path", PATH, "Folder for the files; nothing is exported without it.", update=True),
    setting("mesh", STRING, "Name of the mesh in the records.", default="mesh", update=True),
    setting(
        "intervalSeconds", INTEGER, "Seconds between records of counters.", default=60, minimum=1, maximum=3600,
        update=True,
    ),
    setting(
        "rotateSeconds", INTEGER, "A file is published after so many seconds, or when its hour ends.", default=300,
        minimum=1, maximum=3600, update=True,
    ),
    setting(
        "sampleOneIn", INTEGER, "One delivery of so many is recorded one by one; 0: none.", default=100, minimum=0,
        update=True,
    ),
    setting(
        "samplesPerSecond", INTEGER, "At most so many deliveries a second are recorded; others stand for more then.",
        default=100, minimum=1, update=True,
    ),
    setting(
        "maxMegabytes", INTEGER, "Room for the files of this router; the oldest go when it is used up.", default=512,
        minimum=1, update=True,
    ),
    count("records", "Records made so far."),
    count("droppedRecords", "Records that were lost for want of room."),
    reported("lastError", STRING, "Why records cannot be written, empty while they can."),
    operations=("UPDATE", "PUBLISH"),
    singleton=True,
)

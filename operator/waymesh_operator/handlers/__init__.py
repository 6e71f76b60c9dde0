"""kopf: the watched kinds, and handlers that pass on its events.

kopf is used for watching only. Its create, update and resume handlers store an annotation on objects, its daemons a
finalizer, and neither recovers well from a failed patch; `on.event` needs neither. Events go to the inventory, and
one worker per mesh acts on them.
"""

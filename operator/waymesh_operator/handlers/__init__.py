"""kopf: which kinds it watches, and the handlers that pass its events on.

kopf is used for watching only. Its create, update and resume handlers store an annotation on objects, its daemons a
finalizer, and neither recovers well from a failed patch; `on.event` needs none of it. Events go to the inventory, and
one worker per mesh acts on them.
"""

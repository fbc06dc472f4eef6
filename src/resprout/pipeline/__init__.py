"""What the network observed becomes data: Spark archives it, judges it, measures it and draws it.

The only floor that knows Spark. Everything else runs without it, and without Java.
"""

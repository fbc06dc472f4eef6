"""The page that shows what runs came to: verdicts first, then figures with their numbers, then how to make them again.

One file that needs nothing else: no network, and no scripts but for what a mark tells when one points at it. `facts`
brings the rows, `sweep_report` and `figures` say which figures there are, `charts` draws them, `page` hands
everything to the templates, `output` writes the file. Spark is needed for the rows, not for the page.
"""

"""The page that shows what runs came to: verdicts first, then figures with their numbers, then how to make them again.

One file that needs nothing else: no network, no scripts. `gather` brings the rows, `chapters` says which figures there
are, `page` puts them together, `output` writes the file. Spark is needed for the rows, not for the page.
"""

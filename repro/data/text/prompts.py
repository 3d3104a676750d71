"""The prompt that makes yes/no reading a matter of the next token, after LM-BFF.

Template of the MeZO paper for its large models (arXiv 2305.17333, appendix on prompts): passage,
question with a capital and a question mark, and the words Yes and No as answers. A change to it is
a new ``PROMPT_VERSION``.
"""

from repro.data.text.examples import Example

PROMPT_VERSION = "boolq-1"
ANSWERS = {True: "Yes", False: "No"}


def prompt(example: Example) -> str:
    """Return the text whose continuation, after one space, is the answer's word."""
    question = example.question.strip()
    question = question[:1].upper() + question[1:].removesuffix("?")
    return f"{example.passage.strip()} {question}?"


def passage_length(example: Example) -> int:
    """Return how many characters of the prompt are the passage; what follows asks the question."""
    return len(example.passage.strip())

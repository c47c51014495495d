"""The doctor of hotloop's own runs: measure the pipeline, take one thing away or change it, measure again beside it."""

"""Why a DQN script is slow, measured: record, interpret, experiment, report."""

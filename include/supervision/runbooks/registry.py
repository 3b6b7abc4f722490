"""Every runbook by the id of its DAG."""

from include.supervision.runbooks.pause import PauseAll, ResumeAll
from include.supervision.runbooks.runbook import Runbook
from include.supervision.runbooks.start import RecoverStream, RestartStream, StartStream
from include.supervision.runbooks.stop import StopStream

RUNBOOKS: dict[str, Runbook] = {
    "start_stream": StartStream(),
    "stop_stream": StopStream(),
    "restart_stream": RestartStream(),
    "recover_stream": RecoverStream(),
    "pause_all": PauseAll(),
    "resume_all": ResumeAll(),
}

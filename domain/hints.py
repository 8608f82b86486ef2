"""What a request's hint says: why nothing moves (1-dispatch §1.3, §1.5)."""

from typing import Final

# Everything that holds the platform is on other desktops, where nothing gives way to this request.
WAITING_FOR_PLATFORM: Final = "waiting_for_platform"
WAITING_FOR_CLIENT: Final = "waiting_for_client"
# Its desktop is there, and has no room or no budget yet.
WAITING_FOR_SLOT: Final = "waiting_for_slot"
# Its tenant, its platforms or the lane are paused.
WAITING_FOR_RESUME: Final = "waiting_for_resume"
WAITING_FOR_SAFE_POINT: Final = "waiting_for_safe_point"
WAITING_FOR_CURRENT_TASK: Final = "waiting_for_current_task"
# What the workflow asks for when nothing was dispatched for long; what is shown is the reason that the rows give.
WAITING_FOR_DISPATCH: Final = "waiting_for_dispatch"

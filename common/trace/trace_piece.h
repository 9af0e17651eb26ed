#ifndef MUSTER_COMMON_TRACE_TRACE_PIECE_H_
#define MUSTER_COMMON_TRACE_TRACE_PIECE_H_

#include "absl/types/span.h"
#include "common/trace/trace_event.h"

namespace muster {

namespace v1 {
class TracePiece;
}  // namespace v1

// Adds events to a piece, with each name and track once.
void AddEvents(absl::Span<const TraceEvent> events, v1::TracePiece& piece);

}  // namespace muster

#endif  // MUSTER_COMMON_TRACE_TRACE_PIECE_H_

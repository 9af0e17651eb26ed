#include "common/kernels/device/device_embedding.h"

#include "common/kernels/device/simt/elements.h"

namespace muster {
namespace {

struct EmbeddingOp {
  static constexpr const char* kName = "token embedding";

  int64_t width;
  int64_t context;
  int64_t first_position;
  int64_t first_token;
  int64_t vocabulary;
  const int32_t* token_positions;
  const int32_t* tokens;
  const float* table;
  const float* positions;
  float* out;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    const Place place = PlaceOf(i, width);
    float sum[N] = {};
    const int64_t row = tokens[place.row] - first_token;
    if (row >= 0 && row < vocabulary) LoadFloats<N>(table + row * width + place.column, sum);
    if (positions != nullptr) {
      const int64_t position = token_positions != nullptr
                                   ? token_positions[place.row]
                                   : first_position + PlaceOf(place.row, context).column;
      float added[N];
      LoadFloats<N>(positions + position * width + place.column, added);
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] += added[j];
    }
    StoreFloats<N>(sum, out + i);
  }
};

// A block per token that occurs and 32 · N columns; each of eight warps adds every eighth row, then
// the warps' sums are added in order. Blocks of tokens beyond those that occur do nothing, so that
// the grid does not depend on the batch.
template <int N>
struct TableGradientKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;
  static constexpr const char* kName = "token embedding backward";
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kColumns = 32 * N;
  static constexpr size_t kShared = kThreads * N * sizeof(float);

  int64_t rows;
  int64_t width;
  int64_t first_token;
  int64_t vocabulary;
  const int32_t* order;
  const float* dout;
  float* gradient;

  MUSTER_DEVICE void Run() const {
    const int32_t* const begins = order + rows;
    const int32_t* const tokens = begins + rows + 1;
    const int count = tokens[rows];
    if (BlockX() >= count) return;
    const int64_t table_row = tokens[BlockX()] - first_token;
    if (table_row < 0 || table_row >= vocabulary) return;
    const int first = begins[BlockX()], end = begins[BlockX() + 1];
    const int64_t c = static_cast<int64_t>(BlockY()) * kColumns + LaneIndex() * N;
    float* const shared = reinterpret_cast<float*>(SharedMemory());
    float sum[N] = {};
    if (c < width) {
#pragma unroll 4
      for (int i = first + WarpIndex(); i < end; i += kWarps) {
        float row[N];
        LoadFloats<N>(dout + order[i] * width + c, row);
#pragma unroll
        for (int j = 0; j < N; ++j) sum[j] += row[j];
      }
    }
#pragma unroll
    for (int j = 0; j < N; ++j) shared[(WarpIndex() * N + j) * 32 + LaneIndex()] = sum[j];
    SyncBlock();
    for (int i = ThreadIndex(); i < kColumns; i += kThreads) {
      const int64_t column = static_cast<int64_t>(BlockY()) * kColumns + i;
      if (column >= width) break;
      float total = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) total += shared[(w * N + i % N) * 32 + i / N];
      gradient[table_row * width + column] += total;
    }
  }
};

// An element is (position, column); its rows are one per sequence.
struct PositionGradientOp {
  static constexpr const char* kName = "position embedding backward";

  int64_t rows;
  int64_t width;
  int64_t context;
  const float* dout;
  // Of the first position.
  float* gradient;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    float sum[N];
    LoadFloats<N>(gradient + i, sum);
    for (int64_t at = i; at < rows * width; at += context * width) {
      float row[N];
      LoadFloats<N>(dout + at, row);
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] += row[j];
    }
    StoreFloats<N>(sum, gradient + i);
  }
};

// The rows of a table, and the values that name rows: value v is row v - first.
struct TableRows {
  int64_t first = 0;
  int64_t rows = 0;
  int64_t values = 0;
};

// gradient's rows += the rows of dout [rows, width] that `order`, FillTokenOrder's of their values,
// gives each.
void AddRowsInOrder(DeviceStream& stream, int64_t rows, int64_t width, const TableRows& table,
                    const int32_t* order, const float* dout, float* gradient) {
  const auto launch = [&](auto kernel) {
    // No more values occur than there are rows, or values.
    Launch(stream,
           {.x = rows < table.values ? rows : table.values,
            .y = static_cast<int>(CeilDiv(width, kernel.kColumns))},
           kernel.kShared, kernel);
  };
  if (width % 4 == 0 && IsAligned16(dout)) {
    launch(TableGradientKernel<4>{rows, width, table.first, table.rows, order, dout, gradient});
  } else {
    launch(TableGradientKernel<1>{rows, width, table.first, table.rows, order, dout, gradient});
  }
}

}  // namespace

void DeviceTokenEmbedding(DeviceStream& stream, const TokenEmbeddingShape& shape,
                          const int32_t* tokens, const float* table, const float* positions,
                          float* out) {
  const bool packed =
      shape.width % 8 == 0 && IsAligned16(table) && IsAligned16(positions) && IsAligned16(out);
  ForElements(stream, shape.rows * shape.width, packed,
              EmbeddingOp{shape.width, shape.context, shape.first_position, shape.first_token,
                          shape.vocabulary, shape.token_positions, tokens, table, positions, out});
}

void DeviceTokenEmbeddingBackward(DeviceStream& stream, const TokenEmbeddingShape& shape,
                                  const EmbeddingTokens& tokens, const float* dout,
                                  const EmbeddingGradients& gradients) {
  const int64_t rows = shape.rows;
  AddRowsInOrder(stream, rows, shape.width,
                 {.first = shape.first_token,
                  .rows = shape.vocabulary,
                  .values = shape.tokens > 0 ? shape.tokens : shape.vocabulary},
                 tokens.order, dout, gradients.table);
  if (gradients.positions == nullptr) return;
  if (shape.token_positions != nullptr) {
    AddRowsInOrder(stream, rows, shape.width, {.rows = shape.context, .values = shape.context},
                   tokens.position_order, dout, gradients.positions);
    return;
  }
  float* const first = gradients.positions + shape.first_position * shape.width;
  const int64_t positions = shape.context < rows ? shape.context : rows;
  ForElements(stream, positions * shape.width,
              shape.width % 8 == 0 && IsAligned16(dout) && IsAligned16(first),
              PositionGradientOp{rows, shape.width, shape.context, dout, first});
}

}  // namespace muster

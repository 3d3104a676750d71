#include <algorithm>
#include <cstring>
#include <mutex>

#include "int_convolution.hpp"
#include "parallel.hpp"

namespace zo {
namespace {

constexpr int kDword = 4 * kGroup;  // bytes of one dword of all samples of a group

/// Calls work(i, range) for i from 0 to jobs - 1; returns the range of what they have seen.
template <class Work>
Range parallel_range(int threads, long jobs, const Work& work) {
    Range all;
    std::mutex mutex;
    parallel_shares(threads, jobs, [work, &mutex, &all](long first, long last) {
        Range seen;
        for (long i = first; i < last; ++i) work(i, seen);
        const std::lock_guard lock(mutex);
        all.least = std::min(all.least, seen.least);
        all.greatest = std::max(all.greatest, seen.greatest);
    });
    return all;
}

/// Taps in bytes of an input. With `offset` zeros have 128 added too, and every list is whole; so
/// it is with neighbours.
std::vector<TapReach> reaches(const Layer& l, const IntLayout& layout, bool offset) {
    std::vector<TapReach> taps = layout.taps;
    for (TapReach& t : taps) {
        t.tap.x *= kDword;
        if (offset || layout.neighbours) t = {t.tap, 0, l.kernel_height - 1, 0, l.kernel_width - 1};
    }
    return taps;
}

}  // namespace

IntConvolution::IntConvolution(const Layer& l, bool signed_input, const Machine& machine,
                               Arena& arena)
    : IntConvolution(l, signed_input, machine, arena, IntLayout(l, machine.kernels.tiles)) {}

IntConvolution::IntConvolution(const Layer& l, bool signed_input, const Machine& machine,
                               Arena& arena, IntLayout layout)
    : layer(l),
      machine_(machine),
      offset_(signed_input && machine.kernels.unsigned_inputs),
      pixel_dwords_(layout.pixel_dwords),
      dwords_(layout.dwords),
      neighbours_(layout.neighbours),
      direct_(layout.direct),
      row_taps_(l, 1, reaches(l, layout, offset_), arena),
      pooled_taps_(l, 2, reaches(l, layout, offset_), arena) {
    arena.reserve(input_, std::size_t(machine.capacity / kGroup) * dwords_ * kDword);
    if (!direct_) arena.reserve(packed_, layout.weights.size() * l.outputs);
    if (offset_) arena.reserve(initial_, l.outputs);
    arena.keep(sources_, std::move(layout.sources));
    arena.keep(filled_, std::move(layout.filled));
    arena.keep(features_, std::move(layout.features));
    arena.keep(places_, std::move(layout.weights));
}

void IntConvolution::prepare() {
    std::ranges::fill(input_, flip());  // zeros
}

void IntConvolution::read(const IntMap& map, int groups) {
    const int threads = sharing(machine_.threads, sources_.size() * groups * 3);
    parallel(threads, groups, [=, this](long g) { read_group(map, g); });
}

void IntConvolution::read_group(const IntMap& map, long g) {
    machine_.kernels.interleave(map.at(g), map.batch, sources_.data(), dwords_, flip(),
                                input_.data() + g * dwords_ * kDword);
}

void IntConvolution::read(const IntSums& sums, int groups, int shift, bool rectified) {
    parallel(sharing(machine_.threads, features_.size() * groups * 3), groups, [=, this](long g) {
        Pack job{};
        job.x = sums.at(g);
        job.dwords = filled_.data();
        job.sources = features_.data();
        job.count = int(filled_.size());
        job.shift = shift;
        job.rectified = rectified;
        job.flip = flip();
        job.y = input_.data() + g * dwords_ * kDword;
        machine_.kernels.pack(job);
    });
}

void IntConvolution::take(std::span<const std::int8_t> weights) {
    weights_ = direct_ ? weights : packed_;
    const std::size_t fan_in = layer.fan_in();
    if (!direct_) pack(weights);
    if (offset_)
        for (int o = 0; o < layer.outputs; ++o) {
            std::int32_t sum = 0;
            for (std::int8_t w : weights.subspan(o * fan_in, fan_in)) sum += w;
            initial_[o] = -128 * sum;
        }
}

/// Four weights at a time, without branches.
void IntConvolution::pack(std::span<const std::int8_t> weights) {
    const std::size_t length = places_.size(), fan_in = layer.fan_in();
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(weights.data());
    for (std::size_t i = 0; i < length; i += 4) {
        std::uint32_t source[4], present = 0;
        for (int j = 0; j < 4; ++j) {
            source[j] = std::max(places_[i + j], 0);
            present |= places_[i + j] < 0 ? 0 : 0xFFu << (8 * j);
        }
        for (int o = 0; o < layer.outputs; ++o) {
            const std::uint8_t* const w = bytes + o * fan_in;
            const std::uint32_t four = w[source[0]] | w[source[1]] << 8 | w[source[2]] << 16 |
                                       std::uint32_t(w[source[3]]) << 24;
            const std::uint32_t kept = four & present;
            std::memcpy(&packed_[o * length + i], &kept, 4);
        }
    }
}

Range IntConvolution::run(const IntSums& sums, int groups, bool pooled, bool wraps) const {
    if (layer.fully_connected()) return run_fully_connected(sums, groups);
    return pooled ? run_pooled(sums, groups, wraps) : run_rows(sums, groups);
}

IntWindows IntConvolution::job() const {
    IntWindows job{};
    job.w = weights_.data();
    job.w_step = direct_ ? layer.fan_in() : std::ptrdiff_t(places_.size());
    job.initial = offset_ ? initial_.data() : nullptr;
    job.outputs = layer.outputs;
    job.neighbours = neighbours_;
    return job;
}

/// Groups are computed together: the weights are the longer operand.
Range IntConvolution::run_fully_connected(const IntSums& sums, int groups) const {
    const auto [most, threads] = IntLayout::shares(layer.outputs, dwords_, neighbours_, groups,
                                                   machine_.threads, Team::current());
    const int parts = (layer.outputs + most - 1) / most, quads = (groups + 3) / 4;
    const std::ptrdiff_t x_group = std::ptrdiff_t(dwords_) * kDword, y_group = sums.group;
    return parallel_range(threads, long(parts) * quads,
                          [=, this, most = most](long number, Range& seen) {
                              const int first = int(number % parts) * most;
                              IntWindows job = this->job();
                              set_taps(job, row_taps_.all());
                              job.w += first * job.w_step;
                              if (job.initial) job.initial += first;
                              job.outputs = std::min(most, layer.outputs - first);
                              job.y_output = kGroup;
                              job.blocks = 1;
                              for (int g = int(number / parts) * 4, end = std::min(g + 4, groups);
                                   g < end; g += job.windows) {
                                  job.windows = side_by_side(end - g);
                                  job.x = input_.data() + g * x_group;
                                  job.y = sums.at(g) + first * kGroup;
                                  for (int p = 0; p < job.windows; ++p) {
                                      job.window[p] = p * x_group;
                                      job.y_window[p] = p * y_group;
                                  }
                                  machine_.kernels.windows_i8(job, seen);
                              }
                          });
}

Range IntConvolution::run_pooled(const IntSums& sums, int groups, bool wraps) const {
    const int rows = layer.pooled_rows(), columns = layer.pooled_columns();
    const std::ptrdiff_t pixel = std::ptrdiff_t(pixel_dwords_) * kDword,
                         line = pixel * layer.padded_width();
    return parallel_range(
        machine_.threads, long(groups) * rows, [=, this](long number, Range& seen) {
            const long group = number / rows, row = number % rows;
            const std::uint8_t* const x = input_.data() + group * dwords_ * kDword + 2 * row * line;
            std::int32_t* const y = sums.at(group) + row * columns * kGroup;
            IntWindows job = this->job();
            job.windows = 4;
            for (int p = 0; p < 4; ++p) job.window[p] = p / 2 * line + p % 2 * pixel;
            job.x_step = 2 * pixel;
            job.y_output = std::ptrdiff_t(rows) * columns * kGroup;
            job.y_step = kGroup;
            job.maximum = true;
            job.special = wraps;
            for (int c = 0; c < columns; c += job.blocks) {
                job.blocks = pooled_taps_.run(c);
                set_taps(job, pooled_taps_.at(int(row), c));
                job.x = x + c * job.x_step;
                job.y = y + c * kGroup;
                machine_.kernels.windows_i8(job, seen);
            }
        });
}

Range IntConvolution::run_rows(const IntSums& sums, int groups) const {
    const int rows = layer.rows(), columns = layer.columns();
    const std::ptrdiff_t pixel = std::ptrdiff_t(pixel_dwords_) * kDword,
                         line = pixel * layer.padded_width();
    return parallel_range(
        machine_.threads, long(groups) * rows, [=, this](long number, Range& seen) {
            const long group = number / rows, row = number % rows;
            const std::uint8_t* const x = input_.data() + group * dwords_ * kDword + row * line;
            std::int32_t* const y = sums.at(group) + row * columns * kGroup;
            IntWindows job = this->job();
            set_taps(job, row_taps_.of_row(int(row)));
            for (int p = 0; p < 4; ++p) {
                job.window[p] = p * pixel;
                job.y_window[p] = p * kGroup;
            }
            job.y_output = std::ptrdiff_t(rows) * columns * kGroup;
            for (int c = 0; c < columns; c += job.windows * job.blocks) {
                const int left = columns - c;
                job.windows = side_by_side(left);
                job.blocks = left / job.windows;
                job.x_step = job.windows * pixel;
                job.y_step = job.windows * kGroup;
                job.x = x + c * pixel;
                job.y = y + c * kGroup;
                machine_.kernels.windows_i8(job, seen);
            }
        });
}

}  // namespace zo

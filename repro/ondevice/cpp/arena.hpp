// All memory of an engine: one block, sized from the layer table before a network is trained.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace zo {

/// Hands out aligned, zeroed spans of one block and never takes any back.
///
/// The plan is made first (`reserve`, `keep`), the block is allocated once (`allocate`), and the
/// spans are valid as long as the block. Nothing is allocated while a network is trained.
class Arena {
   public:
    static constexpr std::size_t kAlignment = 64;  ///< a cache line, and the longest vector
    static constexpr std::size_t kSlack = 64;      ///< readable bytes behind each span

    Arena() = default;
    Arena(const Arena&) = delete;  // it knows where its spans are
    Arena& operator=(const Arena&) = delete;

    /// Asks for `elements` of T; `into` is set by `allocate`.
    template <class T>
    void reserve(std::span<T>& into, std::size_t elements) {
        static_assert(std::is_trivially_copyable_v<T>);
        request(elements * sizeof(T),
                [&into, elements](std::byte* at) { into = {reinterpret_cast<T*>(at), elements}; });
    }

    /// Asks for a place for these values; `allocate` copies them there and sets `into`.
    template <class T>
    void keep(std::span<T>& into, std::vector<std::remove_const_t<T>> values) {
        static_assert(std::is_trivially_copyable_v<T>);
        const std::size_t bytes = values.size() * sizeof(T);
        request(bytes, [&into, values = std::move(values)](std::byte* at) {
            auto* const first = reinterpret_cast<std::remove_const_t<T>*>(at);
            std::ranges::copy(values, first);
            into = {first, values.size()};
        });
    }

    /// Allocates the block, zeroes it and sets all spans. Throws std::bad_alloc.
    void allocate() {
        block_.reset(
            static_cast<std::byte*>(std::aligned_alloc(kAlignment, std::max(size_, kAlignment))),
            std::free);
        if (!block_) throw std::bad_alloc();
        std::memset(block_.get(), 0, size_);
        for (const Request& r : requests_) r.set(block_.get() + r.offset);
        requests_.clear();
        requests_.shrink_to_fit();
    }

    std::size_t bytes() const { return size_; }
    /// To be held by who uses a span longer than the arena is there.
    std::shared_ptr<std::byte> block() const { return block_; }

   private:
    struct Request {
        std::size_t offset;
        std::function<void(std::byte*)> set;  // the span, from where it begins
    };

    void request(std::size_t bytes, std::function<void(std::byte*)> set) {
        requests_.push_back({size_, std::move(set)});
        size_ += (bytes + kSlack + kAlignment - 1) / kAlignment * kAlignment;
    }

    std::size_t size_ = 0;
    std::vector<Request> requests_;
    std::shared_ptr<std::byte> block_;
};

}  // namespace zo

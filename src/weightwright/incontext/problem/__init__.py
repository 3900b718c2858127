"""What is to be solved: loss, penalty, method, and what is known of the loss."""

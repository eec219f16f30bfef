"""What durable delivery costs against best effort, and how long a subscriber takes to catch up."""
